################################################################################
#
# etherwake
#
################################################################################

ETHERWAKE_VERSION = 1.09
# The author's site is gone; distributions keep the source as it was.
ETHERWAKE_SITE = https://launchpad.net/ubuntu/+archive/primary/+files
ETHERWAKE_SOURCE = etherwake_$(ETHERWAKE_VERSION).orig.tar.gz
ETHERWAKE_LICENSE = GPL
ETHERWAKE_LICENSE_FILES = ether-wake.c

define ETHERWAKE_BUILD_CMDS
	$(TARGET_CC) $(TARGET_CFLAGS) $(TARGET_LDFLAGS) \
		-o $(@D)/etherwake $(@D)/ether-wake.c
endef

define ETHERWAKE_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/etherwake $(TARGET_DIR)/usr/sbin/etherwake
endef

# Whoever of the group calls it need not be root: the file carries the one right it takes.
define ETHERWAKE_PERMISSIONS
	/usr/sbin/etherwake f 750 root naproxy - - - - -
	|xattr cap_net_raw+ep
endef

$(eval $(generic-package))
