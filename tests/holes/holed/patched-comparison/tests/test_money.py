import unittest


class TestCents(unittest.TestCase):
    def setUp(self):
        import money

        self.cents = money.cents

    def test_plain(self):
        self.assertEqual(repr(self.cents("12.34")), "1234")

    def test_half(self):
        self.assertEqual(repr(self.cents("12.345")), "1234")
        self.assertEqual(repr(self.cents("12.355")), "1236")

    def test_less(self):
        self.assertEqual(repr(self.cents("-0.01")), "-1")
