-- The desk's database. Amounts are euros with two decimals, dates are ISO texts.
CREATE TABLE customers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, phone TEXT NOT NULL, address TEXT NOT NULL,
    city TEXT NOT NULL, language TEXT NOT NULL, tier TEXT NOT NULL, joined TEXT NOT NULL, store_credit REAL NOT NULL
);
CREATE TABLE staff (id TEXT PRIMARY KEY, name TEXT NOT NULL, team TEXT NOT NULL, email TEXT NOT NULL);
CREATE TABLE products (
    sku TEXT PRIMARY KEY, name TEXT NOT NULL, name_zh TEXT NOT NULL, category TEXT NOT NULL, price REAL NOT NULL,
    warranty_months INTEGER NOT NULL
);
CREATE TABLE inventory (
    sku TEXT NOT NULL, warehouse TEXT NOT NULL, on_hand INTEGER NOT NULL, reserved INTEGER NOT NULL,
    reorder_level INTEGER NOT NULL, PRIMARY KEY (sku, warehouse)
);
CREATE TABLE orders (
    id TEXT PRIMARY KEY, customer_id TEXT NOT NULL, placed_on TEXT NOT NULL, status TEXT NOT NULL,
    ship_to TEXT NOT NULL, coupon TEXT, discount REAL NOT NULL, postage REAL NOT NULL, total REAL NOT NULL,
    delivered_on TEXT
);
CREATE TABLE order_items (
    order_id TEXT NOT NULL, line INTEGER NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
    unit_price REAL NOT NULL, PRIMARY KEY (order_id, line)
);
CREATE TABLE shipments (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, carrier TEXT NOT NULL, tracking TEXT NOT NULL, status TEXT NOT NULL,
    shipped_on TEXT NOT NULL, eta TEXT NOT NULL, delivered_on TEXT
);
CREATE TABLE returns (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, sku TEXT NOT NULL, reason TEXT NOT NULL, status TEXT NOT NULL,
    opened_on TEXT NOT NULL, refund_amount REAL NOT NULL
);
CREATE TABLE refunds (
    id TEXT PRIMARY KEY, order_id TEXT NOT NULL, amount REAL NOT NULL, reason TEXT NOT NULL, created_on TEXT NOT NULL
);
CREATE TABLE coupons (
    code TEXT PRIMARY KEY, kind TEXT NOT NULL, value REAL NOT NULL, minimum REAL NOT NULL, valid_from TEXT NOT NULL,
    valid_to TEXT NOT NULL
);
CREATE TABLE tickets (
    id TEXT PRIMARY KEY, customer_id TEXT NOT NULL, order_id TEXT, subject TEXT NOT NULL, priority TEXT NOT NULL,
    status TEXT NOT NULL, assignee TEXT, created_on TEXT NOT NULL
);
CREATE TABLE ticket_notes (
    id INTEGER PRIMARY KEY, ticket_id TEXT NOT NULL, author TEXT NOT NULL, created_on TEXT NOT NULL, text TEXT NOT NULL
);
CREATE TABLE appointments (
    id TEXT PRIMARY KEY, customer_id TEXT NOT NULL, service TEXT NOT NULL, date TEXT NOT NULL, time TEXT NOT NULL,
    status TEXT NOT NULL
);
CREATE TABLE reservations (
    id TEXT PRIMARY KEY, sku TEXT NOT NULL, warehouse TEXT NOT NULL, quantity INTEGER NOT NULL, created_on TEXT NOT NULL
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, customer_id TEXT NOT NULL, text TEXT NOT NULL, sent_on TEXT NOT NULL
);
CREATE TABLE approvals (
    id TEXT PRIMARY KEY, action TEXT NOT NULL, subject_id TEXT NOT NULL, amount REAL, reason TEXT NOT NULL,
    requested_on TEXT NOT NULL
);
-- For graders only: every call that ran. The agent's queries do not see it.
CREATE TABLE call_log (
    seq INTEGER PRIMARY KEY, tool TEXT NOT NULL, level TEXT NOT NULL, arguments TEXT NOT NULL, ok INTEGER NOT NULL
);
