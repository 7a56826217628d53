################################################################################
#
# micropython-pico
#
################################################################################

MICROPYTHON_PICO_VERSION = 1.27.0
MICROPYTHON_PICO_SITE = https://github.com/micropython/micropython/releases/download/v$(MICROPYTHON_PICO_VERSION)
MICROPYTHON_PICO_SOURCE = micropython-$(MICROPYTHON_PICO_VERSION).tar.xz
# lib/pico-sdk: BSD-3-Clause; lib/tinyusb: MIT; lib/mbedtls: Apache-2.0
MICROPYTHON_PICO_LICENSE = MIT, BSD-3-Clause, Apache-2.0
MICROPYTHON_PICO_LICENSE_FILES = LICENSE
MICROPYTHON_PICO_CPE_ID_VENDOR = micropython
MICROPYTHON_PICO_CPE_ID_PRODUCT = micropython
# Not the processor's compiler: the Pico's.
MICROPYTHON_PICO_DEPENDENCIES = \
	host-arm-gnu-toolchain host-python3 $(BR2_CMAKE_HOST_DEPENDENCY)

MICROPYTHON_PICO_OUT = $(@D)/ports/rp2/build-RPI_PICO
# The version is the release's, whatever repository the build lies in.
MICROPYTHON_PICO_ENV = $(HOST_MAKE_ENV) \
	MICROPY_GIT_TAG=v$(MICROPYTHON_PICO_VERSION) \
	MICROPY_GIT_HASH=v$(MICROPYTHON_PICO_VERSION) \
	MICROPY_MPYCROSS=$(@D)/mpy-cross/build/mpy-cross

# Its Python modules are what the port needs to start; our firmware imports no others. So
# micropython-lib is not looked into: any folder with a README will do.
define MICROPYTHON_PICO_CONFIGURE_CMDS
	echo 'freeze("$$(PORT_DIR)/modules")' >$(@D)/naproxy-manifest.py
	$(MICROPYTHON_PICO_ENV) $(BR2_CMAKE) \
		-S $(@D)/ports/rp2 -B $(MICROPYTHON_PICO_OUT) \
		-DMICROPY_BOARD=RPI_PICO \
		-DMICROPY_BOARD_DIR=$(@D)/ports/rp2/boards/RPI_PICO \
		-DMICROPY_FROZEN_MANIFEST=$(@D)/naproxy-manifest.py \
		-DMICROPY_LIB_DIR=$(@D) \
		-DPICO_SDK_PATH=$(@D)/lib/pico-sdk \
		-DPICO_TOOLCHAIN_PATH=$(HOST_DIR)/opt/gcc-arm-none-eabi \
		-DPICO_NO_PICOTOOL=1 \
		-DPython3_EXECUTABLE=$(HOST_DIR)/bin/python3
endef

# 0xe48bff56 is the RP2040 in UF2 files. Without picotool, which needs libusb.
define MICROPYTHON_PICO_BUILD_CMDS
	$(HOST_MAKE_ENV) $(MAKE) -C $(@D)/mpy-cross CC="$(HOSTCC)"
	$(MICROPYTHON_PICO_ENV) $(MAKE) -C $(MICROPYTHON_PICO_OUT)
	$(HOST_DIR)/bin/python3 $(@D)/tools/uf2conv.py \
		-f 0xe48bff56 -b 0x10000000 -c -o $(@D)/micropython.uf2 \
		$(MICROPYTHON_PICO_OUT)/firmware.bin
endef

define MICROPYTHON_PICO_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0644 $(@D)/micropython.uf2 \
		$(TARGET_DIR)/usr/share/naproxy/meter/micropython.uf2
endef

$(eval $(generic-package))
