#!/bin/sh
# Build and test VMOD and VCL against other releases than the system's: in a chroot of
# unpacked Debian packages each, under build/compat. Nothing is installed. Needs root
# (chroot) and Debian's mirror.
#
#   compat.sh [SUITE]...     default: trixie sid
#
# trixie has Varnish 7.7. In sid the project is called Vinyl Cache, 9.0 and up.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/compat
# The mirror that this system has its own packages from.
# shellcheck disable=SC2016 # apt's own variable
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' \
    'Created-By: Packages' | sed -n '1s,/*$,,p')}
[ -n "$mirror" ] || {
	echo "compat: apt knows no mirror of Debian here; MIRROR=URL names one" >&2
	exit 1
}
tools="gcc libc6-dev make python3-minimal pkgconf coreutils dash bash sed grep diffutils
procps findutils libc-bin"

api_of() {
	case $1 in
	trixie) echo "varnishapi varnish libvarnishapi-dev" ;;
	*) echo "vinylapi vinyl-cache libvinylapi-dev" ;;
	esac
}

private_apt() { # SUITE: apt with its own lists and cache, the system's untouched
	suite=$1
	dir=$out/$suite
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/debs"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
		>"$dir/sources.list"
	cat >"$dir/apt.conf" <<-EOF
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::State::lists "$dir/lists";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir/cache";
		APT::Sandbox::User "root";
		APT::Install-Recommends "0";
	EOF
	: >"$dir/status"
	APT_CONFIG=$dir/apt.conf apt-get -qq update
}

unpack() { # SUITE PACKAGE...: the packages and all they need, unpacked, not configured
	suite=$1
	dir=$out/$suite
	root=$dir/root
	shift
	[ -e "$root/.complete" ] && return
	private_apt "$suite"
	rm -rf "$root"
	mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" \
		"$root/proc" "$root/dev" "$root/tmp" "$root/etc" "$root/naproxy"
	for d in bin sbin lib lib64; do
		ln -s "usr/$d" "$root/$d"
	done
	APT_CONFIG=$dir/apt.conf apt-get -qq -y --download-only \
		-o Dir::Cache::archives="$dir/debs" install "$@" >/dev/null
	for deb in "$dir"/debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink
	done
	ln -sf gcc "$root/usr/bin/cc"
	cat >"$root/etc/passwd" <<-EOF
		root:x:0:0:root:/root:/bin/sh
		varnish:x:901:901::/nonexistent:/bin/false
		vcache:x:902:901::/nonexistent:/bin/false
		varnishlog:x:903:901::/nonexistent:/bin/false
		vinyl:x:904:901::/nonexistent:/bin/false
	EOF
	printf 'root:x:0:\nvarnish:x:901:\nvinyl:x:904:\n' >"$root/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
	chmod 1777 "$root/tmp"
	: >"$root/.complete"
}

run() { # SUITE COMMAND: in the chroot, in a mount namespace that ends with it
	root=$out/$1/root
	# shellcheck disable=SC2016 # the inner shell expands them
	unshare -m sh -euc '
		mount --bind "$1" "$2/naproxy"
		mount -t proc proc "$2/proc"
		mount --rbind /dev "$2/dev"
		mount -t tmpfs tmpfs "$2/tmp"
		exec chroot "$2" /bin/sh -euc "$3"' sh "$top" "$root" "$2"
}

[ "$(id -u)" = 0 ] || {
	echo "compat.sh: needs root for chroot" >&2
	exit 1
}
[ $# -gt 0 ] || set -- trixie sid
for suite in "$@"; do
	# shellcheck disable=SC2046,SC2086 # lists of words
	set -- $(api_of "$suite")
	api=$1
	# shellcheck disable=SC2086 # a list of words
	unpack "$suite" "$2" "$3" $tools
	run "$suite" "
		export PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8
		pkg-config --modversion $api
		cd /naproxy/package/libvmod-naproxy
		make -s API=$api BUILD=/naproxy/build/compat/$suite/build all
		make -s API=$api BUILD=/naproxy/build/compat/$suite/build check-vtc
		make -s -C ../../varnish-vcl API=$api OUT=/naproxy/build/compat/$suite/vcl \
		    VMOD_DIR=/naproxy/build/compat/$suite/build check-vtc
		make -s -C ../crawlers BUILD=/naproxy/build/compat/$suite/crawlers check-unit"
done
