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

# A local package copies its own folder only: of the agent there are links in it.
define NAPROXY_COPY_AGENT
	cp -Lf --remove-destination \
		$(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy/src/naproxy/setup/agent/* \
		$(@D)/src/naproxy/setup/agent/
endef
NAPROXY_POST_RSYNC_HOOKS += NAPROXY_COPY_AGENT

# What the VMOD shares is said in its header, which a local package does not copy.
define NAPROXY_MAKE_PAGE_H
	$(HOST_DIR)/bin/python3 $(@D)/page_h.py \
		$(BR2_EXTERNAL_NAPROXY_TOP)/package/libvmod-naproxy/src/naproxy_page.h \
		$(@D)/src/naproxy/core/page_h.py
endef
NAPROXY_PRE_BUILD_HOOKS += NAPROXY_MAKE_PAGE_H

# Nobody runs as this user: the controller is root, its group may control and read.
define NAPROXY_USERS
	naproxy -1 naproxy -1 * /data/naproxy - varnish Naproxy, controller
endef

$(eval $(python-package))
