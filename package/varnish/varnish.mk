################################################################################
#
# varnish
#
################################################################################

VARNISH_VERSION = 9.0.1
VARNISH_SITE = https://vinyl-cache.org/downloads
VARNISH_SOURCE = vinyl-cache-$(VARNISH_VERSION).tgz
VARNISH_LICENSE = BSD-2-Clause
VARNISH_LICENSE_FILES = LICENSE
VARNISH_INSTALL_STAGING = YES

# The host's variant first: two of its programs generate sources of the target's.
VARNISH_DEPENDENCIES = host-pkgconf host-python3 host-varnish libedit ncurses pcre2
HOST_VARNISH_DEPENDENCIES = host-ncurses host-pcre2 host-pkgconf host-python3 \
	host-readline

# Neither manuals nor pages nor the test program are built.
VARNISH_ALL_CONF_OPTS = \
	--disable-static \
	--with-rst2man=/bin/true \
	--with-rst2html=/bin/true \
	--with-sphinx-build=/bin/true \
	--without-jemalloc \
	--without-unwind

# What configure would learn by running programs. Linux has had all of these
# since before the oldest kernel of our boards.
VARNISH_CONF_ENV = \
	ac_cv_have_tcp_keep=yes \
	ac_cv_have_tcp_fastopen=yes \
	ac_cv_have_working_close_range=yes \
	ac_cv_path_PYTHON=$(HOST_DIR)/bin/python3 \
	PYTHON=$(HOST_DIR)/bin/python3 \
	VCC_CC="exec /usr/libexec/naproxy-vcl-cc %s %o"
HOST_VARNISH_CONF_ENV = PYTHON=$(HOST_DIR)/bin/python3

VARNISH_CONF_OPTS = \
	$(VARNISH_ALL_CONF_OPTS) \
	--localstatedir=/var \
	$(if $(BR2_PACKAGE_PCRE2_JIT),--enable-pcre2-jit,--disable-pcre2-jit)
HOST_VARNISH_CONF_OPTS = $(VARNISH_ALL_CONF_OPTS)

# x87 registers are wider than a double; comparisons would not be exact.
ifeq ($(BR2_i386),y)
VARNISH_CONF_ENV += CFLAGS="$(TARGET_CFLAGS) -fexcess-precision=standard"
endif

define VARNISH_ONLY_PROGRAMS
	$(SED) 's/^SUBDIRS = include lib bin .*/SUBDIRS = include lib bin vmod/' \
		$(@D)/Makefile
	$(SED) '/^\tvinyltest$$/d; s/^\tvinyltop \\$$/\tvinyltop/' \
		$(@D)/bin/Makefile
endef
VARNISH_POST_CONFIGURE_HOOKS += VARNISH_ONLY_PROGRAMS
HOST_VARNISH_POST_CONFIGURE_HOOKS += VARNISH_ONLY_PROGRAMS

# These two run while the target's variant is built.
define VARNISH_USE_HOST_GENERATORS
	$(SED) 's,\./vhp_gen_hufdec,$(HOST_DIR)/bin/vhp_gen_hufdec,' \
		$(@D)/bin/vinyld/Makefile
	$(SED) 's,\./vinylstat_help_gen,$(HOST_DIR)/bin/vinylstat_help_gen,' \
		$(@D)/bin/vinylstat/Makefile
endef
VARNISH_POST_CONFIGURE_HOOKS += VARNISH_USE_HOST_GENERATORS

define HOST_VARNISH_INSTALL_GENERATOR
	cd $(@D)/bin/vinyld && \
		$(@D)/libtool --mode=install $(INSTALL) -m 0755 vhp_gen_hufdec \
		$(HOST_DIR)/bin/vhp_gen_hufdec
endef
HOST_VARNISH_POST_INSTALL_HOOKS += HOST_VARNISH_INSTALL_GENERATOR

# The controller and people still say varnishd.
define VARNISH_OLD_NAMES
	ln -sf vinyld $(TARGET_DIR)/usr/sbin/varnishd
	$(foreach tool,adm hist log ncsa stat top,\
		ln -sf vinyl$(tool) $(TARGET_DIR)/usr/bin/varnish$(tool)$(sep))
	rm -f $(TARGET_DIR)/usr/bin/vinylstat_help_gen
endef
VARNISH_POST_INSTALL_TARGET_HOOKS += VARNISH_OLD_NAMES

# The manager starts as root and becomes vinyl, the worker vcache.
define VARNISH_USERS
	vinyl -1 varnish -1 * /var/lib/vinyl-cache - - Vinyl Cache, manager
	vcache -1 varnish -1 * - - - Vinyl Cache, worker
endef

$(eval $(autotools-package))
$(eval $(host-autotools-package))
