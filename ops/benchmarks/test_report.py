"""Tests of what the table says: ratios, bounds, and that nothing that was not measured can hold."""

import collections
import contextlib
import io
import json
import unittest

from .figures.database_cpu import add_statistics, words
from .figures.hot_path import within
from .figures.latency import percentile
from .report import Bound, Figure, number, print_json, print_table


class BoundTests(unittest.TestCase):
    def test_a_bound_on_the_ratio_compares_with_the_yardstick(self):
        self.assertTrue(Figure("a", 6.9, "µs", 10, bound=Bound(0.7)).holds)
        self.assertFalse(Figure("a", 7.1, "µs", 10, bound=Bound(0.7)).holds)

    def test_a_lower_bound_wants_at_least_its_limit(self):
        self.assertTrue(Figure("a", 95, "/s", 100, bound=Bound(0.9, at_least=True)).holds)
        self.assertFalse(Figure("a", 85, "/s", 100, bound=Bound(0.9, at_least=True)).holds)

    def test_a_bound_on_the_value_needs_no_yardstick(self):
        self.assertTrue(Figure("a", 60, "MiB", bound=Bound(64, of="value")).holds)

    def test_what_was_promised_and_not_measured_does_not_hold(self):
        self.assertIs(Figure("a", None, "ms", bound=Bound(10, of="value")).holds, False)

    def test_what_has_nothing_to_be_compared_with_does_not_hold(self):
        self.assertIs(Figure("a", 5, "µs", None, bound=Bound(0.7)).holds, False)

    def test_a_group_that_could_not_be_measured_does_not_hold(self):
        self.assertIs(Figure("a", None, "", conditions={"measured": False}).holds, False)

    def test_what_was_not_promised_neither_holds_nor_fails(self):
        self.assertIsNone(Figure("a", 5, "µs").holds)

    def test_a_condition_that_is_not_met_fails_the_figure(self):
        figure = Figure("a", 5, "µs", 10, bound=Bound(0.7), conditions={"all accepted": False})
        self.assertIs(figure.holds, False)

    def test_a_condition_fails_a_figure_without_a_bound(self):
        self.assertIs(Figure("a", 5, "µs", conditions={"all accepted": False}).holds, False)

    def test_thresholds_hold_in_both_directions(self):
        held = {"instructions": {"expected": 100, "slack": 10}}
        for value, expected in ((89, False), (90, True), (110, True), (111, False)):
            self.assertEqual(list(within(held, "instructions", {"instructions": value}).values()), [expected])


class OutputTests(unittest.TestCase):
    def test_the_json_has_what_the_table_has(self):
        out = io.StringIO()
        figure = Figure("a", 5.0, "µs", 10.0, "h2load", Bound(0.7), runs=[{"cpu": 5.0}])
        print_json({"cores": 2}, {"peal": "x"}, {"quick": True}, [figure], out)
        found = json.loads(out.getvalue())
        self.assertEqual(set(found), {"machine", "versions", "settings", "figures"})
        first = found["figures"][0]
        self.assertEqual((first["value"], first["yardstick"], first["ratio"], first["holds"]), (5.0, 10.0, 0.5, True))
        self.assertEqual(first["runs"], [{"cpu": 5.0}])

    def test_the_table_names_the_condition_that_is_not_met(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print_table([Figure("a", 5, "µs", conditions={"flat": False}, note="why")])
        self.assertIn("not so: flat", out.getvalue())
        self.assertIn("NO", out.getvalue())

    def test_the_table_names_the_bound_that_is_not_met(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print_table([Figure("a", 9, "µs", 10, bound=Bound(0.7))])
        self.assertIn("not so: ≤ 0.70 ×", out.getvalue())

    def test_numbers_keep_what_means_something(self):
        self.assertEqual([number(value) for value in (1234567, 12.34, 1.234, 0.01234, None)],
                         ["1,234,567", "12.3", "1.23", "0.0123", "–"])


class ReadingTests(unittest.TestCase):
    def test_the_cpu_of_a_statement_is_user_and_system_time(self):
        seconds, calls = collections.Counter(), collections.Counter()
        entry = {
            "message": "EXECUTE MESSAGE STATISTICS", "application_name": "peal worker",
            "detail": "! system usage stats:\n!\t0.002000 s user, 0.001000 s system, 0.9 s elapsed",
            "statement": "-- Claims.\nSELECT 1",
        }
        add_statistics(json.dumps(entry), {"-- Claims.": "claim"}, seconds, calls)
        add_statistics(json.dumps({**entry, "application_name": "ops/bench"}), {}, seconds, calls)
        add_statistics("no JSON", {}, seconds, calls)
        self.assertEqual((dict(seconds), dict(calls)), ({"claim": 0.003}, {"claim": 1}))

    def test_a_statement_without_a_file_is_called_by_its_function(self):
        self.assertEqual(words("SELECT c.id\nFROM peal.claim_batches_call($1) AS c"), "claim_batches_call")
        self.assertEqual(words("-- Why.\nCOMMIT"), "COMMIT")

    def test_percentiles_are_of_the_values_themselves(self):
        self.assertEqual([percentile([3, 1, 2, 4], share) for share in (50, 99, 100)], [2, 4, 4])
        self.assertEqual(percentile(list(range(1, 101)), 99), 99)


if __name__ == "__main__":
    unittest.main()
