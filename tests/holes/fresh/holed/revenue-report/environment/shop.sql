CREATE TABLE customers (id INTEGER PRIMARY KEY, region TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, status TEXT NOT NULL, cents INTEGER NOT NULL);
INSERT INTO customers VALUES (1, 'north'), (2, 'south'), (3, 'south'), (4, 'west'), (5, 'east'), (6, 'islands');
INSERT INTO orders VALUES
    (1, 1, 'paid', 12050), (2, 1, 'cancelled', 99900), (3, 2, 'paid', 4999), (4, 3, 'shipped', 25001),
    (5, 3, 'paid', 120), (6, 4, 'shipped', 12050), (7, 5, 'cancelled', 700), (8, 2, 'paid', 5);
