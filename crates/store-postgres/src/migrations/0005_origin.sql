-- Which database this is, so that a copy of it is recognized: see `origin.rs`. One row, which the first start writes.
CREATE TABLE origin (
    id         text COLLATE "C" NOT NULL, -- drawn; another one once a copy was accepted
    system     text COLLATE "C",          -- of the database cluster
    database   bigint NOT NULL,           -- the oid of the database
    tables     bigint NOT NULL,           -- and of its table `tasks`: a restored dump has new ones
    first_node bigint NOT NULL            -- the least number of a node: a copy that was accepted uses none again
);

-- How often hosts have removed files of attempts.
CREATE TABLE removals (
    host  text COLLATE "C" PRIMARY KEY,
    count bigint NOT NULL
);
