################################################################################
#
# naproxy-through
#
################################################################################

NAPROXY_THROUGH_VERSION = $(BR2_EXTERNAL_NAPROXY_VERSION)
NAPROXY_THROUGH_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy-through
NAPROXY_THROUGH_SITE_METHOD = local
NAPROXY_THROUGH_LICENSE = BSD-2-Clause
NAPROXY_THROUGH_LICENSE_FILES = LICENSE
NAPROXY_THROUGH_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

# A local package copies its own folder only.
define NAPROXY_THROUGH_COPY_PAGE
	mkdir -p $(@D)/page
	cp $(BR2_EXTERNAL_NAPROXY_TOP)/package/libvmod-naproxy/src/*page*.h $(@D)/page
endef
NAPROXY_THROUGH_POST_RSYNC_HOOKS += NAPROXY_THROUGH_COPY_PAGE

# The hardening is the image's.
NAPROXY_THROUGH_MAKE_OPTS = \
	$(TARGET_CONFIGURE_OPTS) \
	BUILD=$(@D)/build \
	HARDEN="-Wformat -Werror=format-security" \
	PIE= \
	VMOD=$(@D)/page \
	WERROR=

define NAPROXY_THROUGH_BUILD_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) $(NAPROXY_THROUGH_MAKE_OPTS) all
endef

define NAPROXY_THROUGH_INSTALL_TARGET_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) $(NAPROXY_THROUGH_MAKE_OPTS) \
		DESTDIR=$(TARGET_DIR) install
endef

# The page is Varnish's group's, its sockets are for what ends TLS.
define NAPROXY_THROUGH_USERS
	naproxy-through -1 naproxy-edge -1 * - - varnish Naproxy, passes connections on
endef

$(eval $(generic-package))
