-- Makes the database of `peal up`. Cannot run inside a transaction.
CREATE DATABASE peal
