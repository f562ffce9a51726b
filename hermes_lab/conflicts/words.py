"""The words by which `conflicts` reads a statement: what negates, what excludes each other, what only frames it."""

from __future__ import annotations

_FRAME_ENGLISH = """
user users please always must should need needs needed require requires required want wants prefer prefers
preferred like likes liked remember note from now on ever only just also very every each all use uses used using still
no longer instead moved
"""
_FRAME_CHINESE = """
请记住 记住 用户 以后 今后 从现在起 从今以后 现在 必须 需要 应该 应当 希望 喜欢 偏好 总是 一律 所有 都要 使用 改用 改为
改成 之前 以前 要用 一定 务必 请 都 要 用 先 再 在 为 是 会 应 须 已 得 才 就 也 改 了 把 将 搬家
"""
_NEGATIONS_ENGLISH = """
not no never without don't doesn't didn't isn't aren't won't can't cannot shouldn't mustn't avoid stop refuse neither
nor dont doesnt cant unneeded unnecessary
"""
_NEGATIONS_CHINESE = """
从不 不再 不要 不用 不必 不需要 无需 无须 不得 不能 不可 不准 不许 不会 不是 不 别 勿 没有 没 无 未 切勿 避免 停止 拒绝
"""

FRAME_ENGLISH = frozenset(_FRAME_ENGLISH.split())
"""Words that say that something holds, or for whom, and not what."""

FRAME_CHINESE = tuple(_FRAME_CHINESE.split())
"""The same in Chinese."""

NEGATIONS_ENGLISH = frozenset(_NEGATIONS_ENGLISH.split())
NEGATIONS_CHINESE = tuple(_NEGATIONS_CHINESE.split())

NUMBERED = (
    r"(?:customer|client|user|account|depot|warehouse|store|shop|room|floor|building|gate|line|order|ticket|invoice|case|"
    r"item|product|team|group|step|chapter|version|number|no\.?|#)\s*#?\s*\d[\d.]*"
    r"|第\s*\d+|(?:客户|用户|账户|仓库|门店|店铺|房间|楼|订单|工单|单号|发票|商品|产品|小组|步骤|版本|编号)\s*\d+"
    r"|\d+\s*号(?=店|楼|室|线|门|仓|柜|街|库|客户|机)"
)
"""What names a thing by its number, not an amount: a regular expression."""

UPDATE = (
    r"\b(?:from now on|no longer|any ?more|instead(?: of)?|rather than|(?:has|have) (?:moved|changed)|changed? to|"
    r"switch(?:ed)? to|replaces?|as of (?:today|now))\b"
    r"|改用|改为|改成|改订|改走|换成|换为|不再|取代|代替|已改|搬家|搬到|从现在起|从今以后"
)
"""What says that something holds in place of something else: a regular expression."""

OPPOSITES = (
    ("enable enabled on 开启 启用 打开", "disable disabled off 关闭 停用 禁用"),
    (
        "allow allows allowed permit permits accept accepts 允许 准许 接受",
        "forbid forbids forbidden deny denies 禁止 拒收",
    ),
    ("open opened opens 开门 营业 开放", "close closed closes shut 关门 休息 封闭"),
    ("short brief concise terse 简短 简洁 简要", "long detailed verbose thorough 详细 冗长 详尽"),
    ("include included includes including with 包含 包括", "exclude excluded excludes excluding 排除 除外"),
    ("formal 正式", "informal casual 随意 非正式"),
    ("before prior 之前", "after afterwards 之后 以后再"),
    (
        "more higher increase raise above 增加 提高 高于 以上 超过",
        "less lower decrease reduce below 减少 降低 低于 以下 不足",
    ),
    ("fast quick 很快", "slow 很慢"),
    ("paper printed 纸质", "electronic digital 电子"),
    ("automatic automatically 自动", "manual manually 手动 人工"),
    ("public 公开", "private 保密 私下"),
    ("available online up 可用 在线", "unavailable offline down 不可用 离线"),
    ("ascending 升序", "descending 降序"),
    ("valid 有效", "invalid expired 无效 过期"),
)
"""Pairs of opposites: words of one side, words of the other."""

EXCLUSIVE = (
    "english|英文|英语 chinese|中文|汉语 french|法文|法语 german|德文|德语 spanish|西班牙文|西班牙语 "
    "japanese|日文|日语 korean|韩文|韩语 russian|俄文|俄语 italian|意大利文 portuguese|葡萄牙文",
    "csv json xml pdf excel|xlsx markdown html word|docx parquet yaml",
    "celsius|摄氏度|摄氏 fahrenheit|华氏度|华氏 kelvin|开尔文",
    "kilometre|kilometer|km|公里 mile|miles|英里",
    "kilogram|kg|公斤 pound|pounds|磅",
    "monday|周一|星期一|礼拜一|每周一|每星期一 tuesday|周二|星期二|礼拜二|每周二|每星期二 "
    "wednesday|周三|星期三|礼拜三|每周三|每星期三 thursday|周四|星期四|礼拜四|每周四|每星期四 "
    "friday|周五|星期五|礼拜五|每周五|每星期五 saturday|周六|星期六|礼拜六|每周六|每星期六 "
    "sunday|周日|星期日|礼拜日|每周日|每星期日|周天|星期天|礼拜天|每周天|每星期天",
    "january|一月 february|二月 march|三月 april|四月 may|五月 june|六月 july|七月 august|八月 september|九月 "
    "october|十月 november|十一月 december|十二月",
    "euro|euros|eur|欧元 dollar|dollars|usd|美元 yuan|cny|rmb|人民币 yen|jpy|日元",
    "email|mail|邮件 phone|call|电话 sms|短信 letter|信件 wechat|微信 slack telegram",
    "red|红色 green|绿色 blue|蓝色 yellow|黄色 black|黑色 white|白色",
    "daily|每天 weekly|每周 monthly|每月 yearly|每年",
)
"""Values of which one statement can hold one: groups of `form|other form` divided by blanks."""
