-- The tables of a ledger: a list of events to which events are only ever added, and where that list ends (chain.py).
-- No fact in it depends on a record, but for the keyed digest of the statistics, which only the secret explains.
-- Every ledger file holds these definitions character by character, and is refused if one differs: do not edit them
-- without a new FORMAT_VERSION (schema.py).

CREATE TABLE events (
    number INTEGER PRIMARY KEY NOT NULL,
    facts TEXT NOT NULL,
    digest TEXT NOT NULL
);
CREATE TABLE head (
    only INTEGER PRIMARY KEY NOT NULL CHECK (only = 1),
    number INTEGER NOT NULL,
    digest TEXT NOT NULL
);
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER events_do_not_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events
WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM events)
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER head_stays BEFORE DELETE ON head
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.number <= OLD.number
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER head_is_not_replaced BEFORE INSERT ON head WHEN EXISTS (SELECT 1 FROM head)
BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
