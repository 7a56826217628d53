################################################################################
#
# python-x-wr-timezone
#
################################################################################

PYTHON_X_WR_TIMEZONE_VERSION = 2.0.1
PYTHON_X_WR_TIMEZONE_SOURCE = x_wr_timezone-$(PYTHON_X_WR_TIMEZONE_VERSION).tar.gz
PYTHON_X_WR_TIMEZONE_SITE = https://files.pythonhosted.org/packages/79/2b/8ae5f59ab852c8fe32dd37c1aa058eb98aca118fec2d3af5c3cd56fffb7b
PYTHON_X_WR_TIMEZONE_SETUP_TYPE = setuptools
PYTHON_X_WR_TIMEZONE_LICENSE = LGPL-3.0+
PYTHON_X_WR_TIMEZONE_LICENSE_FILES = LICENSE

$(eval $(python-package))
