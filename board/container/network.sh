# shellcheck shell=sh
# In a container: the network is the host's or the container manager's, and so is the name. To be
# sourced.

# shellcheck disable=SC2034 # the scripts that source this file read it
interface=lo

name_box() {
	:
}
