################################################################################
#
# python-icalendar
#
################################################################################

PYTHON_ICALENDAR_VERSION = 7.3.2
PYTHON_ICALENDAR_SOURCE = icalendar-$(PYTHON_ICALENDAR_VERSION).tar.gz
PYTHON_ICALENDAR_SITE = https://files.pythonhosted.org/packages/9d/2d/db155eaa6ffe65b370b9899a69ac67cd439a33a9e9610327cef1ffaac86e
PYTHON_ICALENDAR_SETUP_TYPE = hatch
PYTHON_ICALENDAR_LICENSE = BSD-2-Clause
PYTHON_ICALENDAR_LICENSE_FILES = LICENSE.rst
PYTHON_ICALENDAR_DEPENDENCIES = host-python-hatch-vcs

$(eval $(python-package))
