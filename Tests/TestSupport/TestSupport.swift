// Shared builders for tests.
