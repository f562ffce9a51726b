"""The figures that stand in the policies, each with the questions that ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of a policy.

    Attributes:
        question: what a person asks, in English.
        figure: the number that answers it.
        words: a search for it holds at least one of these.
        chinese: the same question in Chinese; "" where none is asked.
        pattern: for an answer that is no plain number.
    """

    question: str
    figure: float
    words: tuple[str, ...]
    chinese: str = ""
    pattern: str | None = None


RETURNS = (
    Fact(
        "Within how many days of delivery can a standard customer send a product back?",
        28,
        ("return", "back", "退"),
        "普通顾客签收后多少天内可以退货?",
    ),
    Fact(
        "How many days do gold customers have for a return?",
        45,
        ("return", "gold", "退", "金卡"),
        "金卡会员的退货期限是多少天?",
    ),
    Fact(
        "What does a customer pay for return postage after a change of mind?",
        6.5,
        ("return", "postage", "运费", "退"),
        "顾客改变主意退货,需要自己承担多少运费(欧元)?",
    ),
    Fact(
        "What restocking fee, in percent, do we keep for an opened product?",
        12,
        ("restock", "open", "fee", "整理费", "拆封", "退"),
        "已拆封商品退货要收百分之几的整理费?",
    ),
    Fact(
        "Within how many working days after we receive a return is the refund paid?",
        5,
        ("refund", "return", "退款", "退"),
        "仓库收到退货后几个工作日内退款?",
    ),
)
SHIPPING = (
    Fact("From which order value on is shipping free?", 75, ("ship", "postage", "free")),
    Fact("How much is express delivery?", 9.8, ("express", "ship", "deliver")),
    Fact("What is the postage on a small order with standard delivery?", 4.9, ("postage", "ship", "deliver")),
    Fact("After how many days without movement does a parcel count as lost?", 10, ("lost", "parcel", "ship")),
    Fact(
        "What does it cost to have the carrier redirect a parcel that has already shipped?",
        3.2,
        ("redirect", "address", "carrier"),
    ),
    Fact(
        "Until what time must an order be placed to be packed the same day?",
        14.5,
        ("pack", "same day", "ship", "placed"),
        pattern=r"14:30|2:30",
    ),
)
WARRANTY = (
    Fact(
        "How many extra months of warranty do silver customers get?",
        3,
        ("warrant", "silver", "保修", "银卡"),
        "银卡会员的保修期可以延长几个月?",
    ),
    Fact(
        "How many months longer is the warranty for gold customers?",
        6,
        ("warrant", "gold", "保修", "金卡"),
        "金卡会员的保修期多几个月?",
    ),
    Fact(
        "How many working days can a repair take at most?",
        9,
        ("repair", "warrant", "维修", "保修"),
        "维修最长需要几个工作日?",
    ),
    Fact(
        "How much deposit do we ask for when we lend a keyboard during a repair?",
        25,
        ("deposit", "lend", "loan", "repair", "borrow", "押金", "备用", "维修"),
        "维修期间借用备用键盘要付多少押金(欧元)?",
    ),
)
COUPONS = (
    Fact(
        "For how many days after its end is an expired coupon still honoured if a ticket was open?",
        3,
        ("coupon", "expired"),
    ),
    Fact("After how many months do we check a student card again?", 12, ("student", "card")),
    Fact(
        "How much store credit does somebody get for bringing a new customer?",
        15,
        ("referral", "bring", "new customer", "credit"),
    ),
    Fact("From how many pieces on does a company get its discount?", 12, ("business", "company", "pieces", "discount")),
    Fact("How many percent off do business customers get?", 6, ("business", "company", "percent", "discount")),
    Fact(
        "After our own price drops, within how many days of the order is the difference credited?",
        10,
        ("price", "cheaper", "difference", "drop"),
    ),
    Fact("After how many months does store credit expire?", 18, ("credit", "expire")),
)
PRIVACY = (
    Fact("After how many months are messages to the desk deleted?", 24, ("message", "delet", "privacy")),
    Fact("Within how many working days is a complaint about privacy answered?", 10, ("complain", "privacy")),
    Fact("Within how many days is a request to erase data carried out?", 21, ("eras", "delet", "privacy", "data")),
    Fact("For how many years do we keep invoices?", 7, ("invoice", "keep", "privacy", "years")),
    Fact(
        "What does a further copy of somebody's data cost once the free ones are used up?",
        8,
        ("copy", "copies", "data"),
    ),
    Fact("After how many days are telephone recordings deleted?", 60, ("record", "telephone", "call", "phone")),
    Fact("Within how many days is a copy of the stored data sent out?", 14, ("copy", "copies", "data")),
)
VISITS = (
    Fact(
        "How long is a workshop visit, in minutes?",
        45,
        ("visit", "workshop", "appointment", "minute", "预约"),
        "门店预约每次多少分钟?",
    ),
    Fact(
        "What do we charge when a visit is cancelled less than 24 hours before?",
        7.5,
        ("cancel", "visit", "appointment", "late", "取消", "预约"),
        "提前不足24小时取消预约要收多少欧元?",
    ),
    Fact(
        "How much does a customer pay for not coming to an appointment?",
        15,
        ("miss", "appointment", "visit", "no-show", "not com", "未到", "爽约", "预约"),
        "预约后没有到店要收多少欧元?",
    ),
    Fact(
        "What is the price of a setup appointment?",
        30,
        ("setup", "appointment", "cost", "price", "安装", "费用", "预约"),
        "安装调试服务收费多少欧元?",
    ),
    Fact(
        "What does the workshop charge for each half hour of a repair that is out of warranty?",
        22,
        ("repair", "half hour", "workshop", "维修", "保修", "费用"),
        "保修期外的维修每半小时多少欧元?",
    ),
    Fact(
        "How much deposit is asked for after two missed visits?",
        20,
        ("deposit", "miss", "visit", "appointment", "押金", "爽约", "预约"),
        "两次爽约之后再预约要交多少押金(欧元)?",
    ),
)
