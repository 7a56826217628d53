"""An INA219 as its data sheet (SBOS448) describes it, on a bus that can fail."""

AFTER_POWER_ON = 0x399F
CONVERSION_US = 17600


class Chip:
    """The chip and the `machine.I2C` it hangs on. By `clock()`, in us, it has converted or not."""

    def __init__(self, clock=None, address=0x40):
        self.clock = clock or (lambda: 0)
        self.address = address
        self.shunt = 0
        self.bus = 0
        self.plugged = True
        self.configured = 0  # how often somebody wrote the configuration
        self.reads = 0
        self.power_on()

    def power_on(self):
        """A brown-out: registers forget, the next conversion has yet to finish."""
        self.configuration = AFTER_POWER_ON
        self._since_us = self.clock()

    def _answer(self, address):
        if not self.plugged or address != self.address:
            raise OSError(5)

    def readfrom_mem(self, address, register, size):
        self._answer(address)
        assert size == 2
        self.reads += 1
        ready = self.clock() - self._since_us >= CONVERSION_US
        word = {
            0: self.configuration,
            1: self.shunt & 0xFFFF if ready else 0,
            2: self.bus << 3 | 2 if ready else 0,
        }[register]
        return bytes((word >> 8, word & 0xFF))

    def writeto_mem(self, address, register, data):
        self._answer(address)
        assert register == 0  # nothing else is ours to write
        assert len(data) == 2
        self.configuration = data[0] << 8 | data[1]
        self.configured += 1
        self._since_us = self.clock()
