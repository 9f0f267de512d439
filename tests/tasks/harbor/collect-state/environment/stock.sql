CREATE TABLE stock (name TEXT PRIMARY KEY, count INTEGER NOT NULL);
INSERT INTO stock VALUES ('apples', 4), ('pears', 2), ('plums', 9);
