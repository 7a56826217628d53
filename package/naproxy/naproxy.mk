################################################################################
#
# naproxy
#
################################################################################

NAPROXY_VERSION = $(BR2_EXTERNAL_NAPROXY_VERSION)
NAPROXY_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy
NAPROXY_SITE_METHOD = local
NAPROXY_SETUP_TYPE = setuptools
NAPROXY_DEPENDENCIES = host-python-babel
NAPROXY_LICENSE = BSD-2-Clause
NAPROXY_LICENSE_FILES = LICENSE
NAPROXY_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

# Nobody runs as this user: the controller is root, its group may control and read.
define NAPROXY_USERS
	naproxy -1 naproxy -1 * /data/naproxy - varnish Naproxy, controller
endef

$(eval $(python-package))
