-- The data directories whose tasks were moved here. Their own databases have the same ids.
CREATE TABLE relocations (
    id   text COLLATE "C" PRIMARY KEY,
    host text COLLATE "C" NOT NULL,
    at   bigint NOT NULL
);
