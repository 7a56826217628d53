################################################################################
#
# naproxy-webui
#
################################################################################

NAPROXY_WEBUI_VERSION = $(BR2_EXTERNAL_NAPROXY_VERSION)
NAPROXY_WEBUI_SITE = $(BR2_EXTERNAL_NAPROXY_TOP)/webui
NAPROXY_WEBUI_SITE_METHOD = local
NAPROXY_WEBUI_SETUP_TYPE = setuptools
NAPROXY_WEBUI_DEPENDENCIES = host-python-babel host-python-markdown
NAPROXY_WEBUI_LICENSE = BSD-2-Clause, MIT (Chart.js)
NAPROXY_WEBUI_LICENSE_FILES = LICENSE src/naproxy_webui/static/vendor/chart.js-LICENSE.md
NAPROXY_WEBUI_POST_RSYNC_HOOKS += BR2_EXTERNAL_NAPROXY_COPY_LICENSE

# The help is made of the project's docs, which a local package does not copy.
define NAPROXY_WEBUI_MAKE_HELP
	$(HOST_DIR)/bin/python3 $(BR2_EXTERNAL_NAPROXY_TOP)/webui/help.py $(@D)/src/naproxy_webui/help
endef
NAPROXY_WEBUI_PRE_BUILD_HOOKS += NAPROXY_WEBUI_MAKE_HELP

# lighttpd serves the static files from here.
define NAPROXY_WEBUI_LINK_STATIC
	mkdir -p $(TARGET_DIR)/usr/share/naproxy-webui
	ln -sfn ../../lib/python$(PYTHON3_VERSION_MAJOR)/site-packages/naproxy_webui/static \
		$(TARGET_DIR)/usr/share/naproxy-webui/static
endef
NAPROXY_WEBUI_POST_INSTALL_TARGET_HOOKS += NAPROXY_WEBUI_LINK_STATIC

define NAPROXY_WEBUI_USERS
	naproxy-webui -1 naproxy-webui -1 * - - naproxy Naproxy, web interface
endef

$(eval $(python-package))
