# Recipes are beside the source they build, not below this folder.
BR2_EXTERNAL_NAPROXY_TOP = $(abspath $(BR2_EXTERNAL_NAPROXY_PATH)/..)

# The one place that names the version of what is ours.
BR2_EXTERNAL_NAPROXY_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' \
	$(BR2_EXTERNAL_NAPROXY_TOP)/package/naproxy/src/naproxy/__init__.py)

# The licence of our own packages is at the top of the project, outside of what
# a local package copies.
define BR2_EXTERNAL_NAPROXY_COPY_LICENSE
	$(INSTALL) -m 0644 $(BR2_EXTERNAL_NAPROXY_TOP)/LICENSE $(@D)/LICENSE
endef

include $(sort $(wildcard $(BR2_EXTERNAL_NAPROXY_TOP)/package/*/*.mk))

# The boot loader unpacks slowly, and a kernel for PCs is packed already.
ROOTFS_SQUASHFS_ARGS += -action 'uncompressed@pathname(boot/bzImage)'

# The recipe builds for any system that there is: without epoll, splice and accept4. The last word
# on the command line counts.
HAPROXY_MAKE_OPTS += TARGET=linux-glibc USE_SYSTEMD=

# The recipe gives CFLAGS on make's command line, and so loses HAProxy's own -fwrapv. Without it
# the compiler may assume that integers never overflow; HAProxy finds that out and exits at once.
HAPROXY_CFLAGS += -fwrapv

# TARGET=linux-glibc turns on the system's crypt(3), of which the recipe does not know. Its
# dependencies have been read by now: so this one is make's.
$(HAPROXY_TARGET_CONFIGURE): | libxcrypt

# Nothing uses the C++ library of libgpiod, which needs another 2 MB of libstdc++.
LIBGPIOD2_CONF_OPTS += --disable-bindings-cxx

# OpenSSL's assembler asks the processor for SSE2; for a Geode it is not there to be asked for.
ifeq ($(BR2_x86_geode),y)
LIBOPENSSL_TARGET_ARCH += no-sse2
endif
