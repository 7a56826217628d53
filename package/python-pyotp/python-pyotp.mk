################################################################################
#
# python-pyotp
#
################################################################################

PYTHON_PYOTP_VERSION = 2.9.0
PYTHON_PYOTP_SOURCE = pyotp-$(PYTHON_PYOTP_VERSION).tar.gz
PYTHON_PYOTP_SITE = https://files.pythonhosted.org/packages/f3/b2/1d5994ba2acde054a443bd5e2d384175449c7d2b6d1a0614dbca3a63abfc
PYTHON_PYOTP_SETUP_TYPE = setuptools
PYTHON_PYOTP_LICENSE = MIT
PYTHON_PYOTP_LICENSE_FILES = LICENSE

$(eval $(python-package))
