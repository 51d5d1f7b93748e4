import TestSupport

extension SendFixture {
    /// Lets every page that holds a device be refused with an SQLSTATE.
    func refusePages(of device: Int, _ sqlState: String) async throws {
        try await query(
            """
            CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF \(device) = ANY (NEW.ids) THEN
                    RAISE EXCEPTION USING ERRCODE = '\(sqlState)', MESSAGE = 'poisoned';
                END IF;
                RETURN NEW;
            END $$
            """
        )
        try await query(
            "CREATE TRIGGER poison BEFORE INSERT ON peal.audience_page FOR EACH ROW EXECUTE FUNCTION poison()"
        )
    }
}
