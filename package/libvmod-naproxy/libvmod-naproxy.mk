################################################################################
#
# libvmod-naproxy
#
################################################################################

LIBVMOD_NAPROXY_VERSION = $(BR2_EXTERNAL_NAPROXY_VERSION)
LIBVMOD_NAPROXY_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/package/libvmod-naproxy
LIBVMOD_NAPROXY_SITE_METHOD = local
LIBVMOD_NAPROXY_LICENSE = BSD-2-Clause, MIT (list of crawlers)
LIBVMOD_NAPROXY_LICENSE_FILES = LICENSE crawlers/crawler-user-agents.LICENSE
LIBVMOD_NAPROXY_DEPENDENCIES = host-pkgconf host-python3 varnish
LIBVMOD_NAPROXY_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

# A local package copies its own folder only.
define LIBVMOD_NAPROXY_COPY_CRAWLERS
	cp -r $(BR2_EXTERNAL_NAPROXY_TOP)/package/crawlers $(@D)
endef
LIBVMOD_NAPROXY_POST_RSYNC_HOOKS += LIBVMOD_NAPROXY_COPY_CRAWLERS

# The hardening is the image's; directories are named, as pkg-config's variables
# have no sysroot.
LIBVMOD_NAPROXY_MAKE_OPTS = \
	$(TARGET_CONFIGURE_OPTS) \
	API=vinylapi \
	BUILD=$(@D)/build \
	CRAWLERS=$(@D)/crawlers \
	HARDEN="-Wformat -Werror=format-security" \
	PKG_CONFIG=$(PKG_CONFIG_HOST_BINARY) \
	PYTHON=$(HOST_DIR)/bin/python3 \
	VMODDIR=/usr/lib/vinyl-cache/vmods \
	VMODTOOL=$(STAGING_DIR)/usr/share/vinyl-cache/vmodtool.py \
	VSCTOOL=$(STAGING_DIR)/usr/share/vinyl-cache/vsctool.py \
	WERROR=

define LIBVMOD_NAPROXY_BUILD_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) $(LIBVMOD_NAPROXY_MAKE_OPTS) \
		$(@D)/build/libvmod_naproxy.so
endef

define LIBVMOD_NAPROXY_INSTALL_TARGET_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) $(LIBVMOD_NAPROXY_MAKE_OPTS) \
		DESTDIR=$(TARGET_DIR) install
endef

$(eval $(generic-package))
