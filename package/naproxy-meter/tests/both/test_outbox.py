from naproxy_meter.outbox import LONGEST_QUEUE, Outbox


class Wire:
    """Takes `room` bytes, then none until there is room again."""

    def __init__(self, room):
        self.room = room
        self.sent = b""

    def write(self, data):
        taken = min(self.room, len(data))
        self.room -= taken
        self.sent += data[:taken]
        return taken


def test_frame_waits_for_the_replies_until_its_first_byte_has_left():
    outbox, wire = Outbox(), Wire(0)
    outbox.frame(b"frame\n")
    outbox.reply(b"one\n")
    outbox.reply(b"two\n")
    outbox.pump(wire.write)
    assert outbox.frame_waits()
    assert not outbox.empty()
    wire.room = 9
    outbox.pump(wire.write)
    assert not outbox.frame_waits()
    wire.room = 100
    outbox.pump(wire.write)
    assert wire.sent == b"one\ntwo\nframe\n"
    assert outbox.empty()


def test_replies_nobody_reads_are_dropped_oldest_first():
    outbox, wire = Outbox(), Wire(0)
    for number in range(1000):
        outbox.reply(b"%d\n" % number)
    wire.room = 1000
    outbox.pump(wire.write)
    assert wire.sent.split() == [b"%d" % n for n in range(1000 - LONGEST_QUEUE, 1000)]
