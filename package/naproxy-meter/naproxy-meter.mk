################################################################################
#
# naproxy-meter
#
################################################################################

NAPROXY_METER_VERSION = 1.0.0
NAPROXY_METER_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy-meter
NAPROXY_METER_SITE_METHOD = local
NAPROXY_METER_SETUP_TYPE = setuptools
# As in firmware.py
NAPROXY_METER_MODULES = __init__ accumulator frame ina219 meter outbox pico settings
NAPROXY_METER_LICENSE = BSD-2-Clause
NAPROXY_METER_LICENSE_FILES = LICENSE
NAPROXY_METER_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

# The firmware's sources, for the Pico: Python's own folder has them compiled only.
define NAPROXY_METER_INSTALL_FIRMWARE
	mkdir -p $(TARGET_DIR)/usr/share/naproxy/meter
	$(INSTALL) -m 0644 $(addprefix $(@D)/src/naproxy_meter/,$(addsuffix .py,$(NAPROXY_METER_MODULES))) \
		$(TARGET_DIR)/usr/share/naproxy/meter
endef
NAPROXY_METER_POST_INSTALL_TARGET_HOOKS += NAPROXY_METER_INSTALL_FIRMWARE

$(eval $(python-package))
