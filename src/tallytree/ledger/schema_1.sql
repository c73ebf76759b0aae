-- The tables of a ledger of format 1, character by character, to recognize such a file (format_1.py migrates it).

CREATE TABLE datasets (
    name TEXT PRIMARY KEY NOT NULL,
    neighboring TEXT NOT NULL CHECK (neighboring IN ('add_remove', 'change_one')),
    max_contributions INTEGER NOT NULL CHECK (max_contributions >= 1),
    unit TEXT CHECK (unit IN ('record', 'trip', 'membership'))
);
CREATE TABLE limits (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES datasets (name),
    set_at TEXT NOT NULL,
    epsilon TEXT,
    delta TEXT,
    rho TEXT
);
CREATE TABLE releases (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL REFERENCES datasets (name),
    recorded_at TEXT NOT NULL,
    statistic TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    epsilon TEXT,
    delta TEXT,
    rho TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'finished')),
    version TEXT NOT NULL
);
CREATE TRIGGER releases_stay BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER releases_do_not_change
BEFORE UPDATE OF number, dataset, recorded_at, statistic, mechanism, epsilon, delta, rho, version ON releases
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER limits_stay BEFORE DELETE ON limits
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER limits_do_not_change BEFORE UPDATE ON limits
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER datasets_stay BEFORE DELETE ON datasets
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER datasets_do_not_change BEFORE UPDATE OF name, neighboring, max_contributions ON datasets
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
CREATE TRIGGER releases_are_not_replaced BEFORE INSERT ON releases
WHEN EXISTS (SELECT 1 FROM releases WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER limits_are_not_replaced BEFORE INSERT ON limits
WHEN EXISTS (SELECT 1 FROM limits WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'a later limit replaces an earlier one'); END;
CREATE TRIGGER datasets_are_not_replaced BEFORE INSERT ON datasets
WHEN EXISTS (SELECT 1 FROM datasets WHERE name = NEW.name)
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
CREATE TRIGGER datasets_keep_their_unit BEFORE UPDATE OF unit ON datasets WHEN OLD.unit IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a data set keeps its terms'); END;
