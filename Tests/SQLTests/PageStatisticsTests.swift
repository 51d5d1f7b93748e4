import Postgres
import PushCore
import TestSupport
import Testing

/// What autovacuum learns of audience pages.
@Suite struct PageStatisticsTests {
    @Test func `no statistics are taken of the ids in pages, whichever day they are of`() async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                VALUES ('shop', '{"device_ids": [1, 2, 3]}', '{"title": "x"}')
                """
            )
            try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
            try await fixture.query("SELECT peal.make_partitions(9)")
            #expect(
                try await fixture.number(
                    """
                    SELECT count(*) FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
                    WHERE c.relnamespace = 'peal'::regnamespace AND c.relname LIKE 'audience\\_page%'
                        AND a.attname = 'ids' AND a.attstattarget IS DISTINCT FROM 0
                    """
                ) == 0
            )
            try await fixture.query("ANALYZE peal.audience_page")
            let known = "SELECT count(*) FROM pg_stats WHERE tablename LIKE 'audience\\_page%' AND attname ="
            #expect(try await fixture.number("\(known) 'size'") > 0)
            #expect(try await fixture.number("\(known) 'ids'") == 0)
        }
    }
}
