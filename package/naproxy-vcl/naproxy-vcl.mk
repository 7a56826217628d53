################################################################################
#
# naproxy-vcl
#
################################################################################

NAPROXY_VCL_VERSION = $(BR2_EXTERNAL_NAPROXY_VERSION)
NAPROXY_VCL_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/varnish-vcl
NAPROXY_VCL_SITE_METHOD = local
NAPROXY_VCL_LICENSE = BSD-2-Clause
NAPROXY_VCL_LICENSE_FILES = LICENSE
NAPROXY_VCL_DEPENDENCIES = host-pkgconf host-python-babel varnish
NAPROXY_VCL_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

define NAPROXY_VCL_BUILD_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) API=vinylapi OUT=$(@D)/out \
		PKG_CONFIG=$(PKG_CONFIG_HOST_BINARY) PYTHON=$(HOST_DIR)/bin/python3
endef

# board/common/post-build compiles it, when the modules are what they stay.
define NAPROXY_VCL_INSTALL_TARGET_CMDS
	mkdir -p $(TARGET_DIR)/usr/share/naproxy/vcl
	$(INSTALL) -m 0644 $(@D)/out/*.vcl $(TARGET_DIR)/usr/share/naproxy/vcl
	$(INSTALL) -m 0644 $(@D)/varnishd.args $(@D)/varnishd.env $(TARGET_DIR)/usr/share/naproxy
endef

$(eval $(generic-package))
