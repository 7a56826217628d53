from helpers import raises

from naproxy_meter.accumulator import Accumulator
from naproxy_meter.frame import LONGEST_LINE, LineError, Lines, frame, seal, unseal


def kind_of(line):
    return raises(LineError, unseal, line).kind


def test_checksum_is_the_crc32_of_ethernet_and_zlib_with_its_leading_zeros():
    # The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRCs.
    assert seal("123456789") == b"123456789*cbf43926\n"
    line = seal("A 1 set every 244")
    assert line[-9:-7] == b"00"
    assert unseal(line[:-1]) == "A 1 set every 244"


def test_frame_carries_all_sums_in_the_documented_order():
    sums = Accumulator()
    sums.covered_us = 20000
    sums.readings = 1
    sums.shunt = -10
    sums.bus = 3000
    sums.energy = -(1 << 70)
    text = unseal(frame("3fa2", 4294967295, 40000, sums, 0x42)[:-1])
    assert text == "F 3fa2 4294967295 40000 20000 1 -10 3000 -1180591620717411303424 42"


def test_longest_possible_frame_is_within_the_limit():
    sums = Accumulator()
    sums.covered_us = sums.readings = sums.shunt = sums.bus = 10**20
    sums.energy = -(1 << 79)
    assert len(frame("ffff", (1 << 32) - 1, 10**20, sums, 255)) <= LONGEST_LINE


def test_every_cut_line_is_noticed():
    line = seal("F 3fa2 1 20000 0 0 0 0 0 00")[:-1]
    for length in range(len(line)):
        assert kind_of(line[:length]) == "cut"
        assert kind_of(line[length + 1 :]) in ("cut", "checksum")


def test_every_flipped_bit_is_noticed():
    line = seal("F 3fa2 1 20000 0 0 0 0 0 00")[:-1]
    for index in range(len(line)):
        for bit in range(8):
            bad = line[:index] + bytes((line[index] ^ 1 << bit,)) + line[index + 1 :]
            raises(LineError, unseal, bad)


def test_what_is_wrong_with_a_line_is_named():
    sealed = seal("H 1")[:-1]
    for line, kind in (
        (sealed * 2, "doubled"),
        (b"H 1*00000000", "checksum"),
        (b"H 1*CBF43926", "checksum"),
        (sealed + b"0", "checksum"),
        (b"\x00\xff\x03*12345678", "noise"),
        (b"F" * (LONGEST_LINE + 1), "huge"),
    ):
        assert kind_of(line) == kind, line


def test_lines_are_cut_at_either_end_mark_and_across_feeds():
    lines = Lines()
    assert lines.feed(b"one\r\ntw") == [b"one"]
    assert lines.feed(b"o\n\n\nthree\r") == [b"two", b"three"]


def test_line_without_end_keeps_no_more_than_one_line_of_memory():
    lines = Lines()
    for _ in range(100):
        assert lines.feed(b"x" * 64) == []
    (line,) = lines.feed(b"\n")
    assert len(line) == LONGEST_LINE + 1
    assert lines.feed(b"good\n") == [b"good"]
