################################################################################
#
# python-protego
#
################################################################################

PYTHON_PROTEGO_VERSION = 0.7.0
PYTHON_PROTEGO_SOURCE = protego-$(PYTHON_PROTEGO_VERSION).tar.gz
PYTHON_PROTEGO_SITE = https://files.pythonhosted.org/packages/7a/d9/5026b9e75db1172f02441a84eaf42efb199b4cea14dda7651a620d1acd40
PYTHON_PROTEGO_SETUP_TYPE = hatch
PYTHON_PROTEGO_LICENSE = BSD-3-Clause
PYTHON_PROTEGO_LICENSE_FILES = LICENSE

$(eval $(python-package))
