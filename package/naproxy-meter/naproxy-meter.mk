################################################################################
#
# naproxy-meter
#
################################################################################

NAPROXY_METER_VERSION = 1.0.0
NAPROXY_METER_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy-meter
NAPROXY_METER_SITE_METHOD = local
NAPROXY_METER_SETUP_TYPE = setuptools
NAPROXY_METER_LICENSE = BSD-2-Clause
NAPROXY_METER_LICENSE_FILES = LICENSE
NAPROXY_METER_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

$(eval $(python-package))
