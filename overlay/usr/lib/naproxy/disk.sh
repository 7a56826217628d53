# shellcheck shell=sh
# The disk that the box was started from. To be sourced, after common.sh.

# Sets disk (sda), boot_part and data_part (/dev/sda1, /dev/sda4): those beside the root. Not
# found by their labels: somebody's USB stick may have the same. /dev/naproxy has all four, for RAUC.
find_disk() {
	root=
	# shellcheck disable=SC2013 # words are wanted
	for word in $(cat /proc/cmdline); do
		case $word in
		root=/dev/*) root=${word#root=/dev/} ;;
		root=PARTUUID=*) root=$(mounted_root) ;;
		esac
	done
	[ -n "$root" ] || return 1
	boot_part=/dev/${root%?}1
	data_part=/dev/${root%?}4
	wait_for 5 test -b "$data_part" || return 1
	mkdir -p /dev/naproxy
	for number in 1 2 3 4; do
		ln -sfn "/dev/${root%?}$number" "/dev/naproxy/$number"
	done
	disk=$(readlink -f "/sys/class/block/$root") && disk=${disk%/*} && disk=${disk##*/}
}

mounted_root() { # the name of the partition that is mounted as /
	numbers=$(mountpoint -d /) || return
	for part in /sys/class/block/*; do
		[ "$(cat "$part/dev" 2>/dev/null)" != "$numbers" ] || echo "${part##*/}"
	done
}

size_of() { # PARTITION FACT: a number that the kernel has of it, in sectors
	cat "/sys/class/block/${1#/dev/}/$2"
}

# The last partition takes the rest of the disk. The table is one sector, written at once. What
# was there before is put back if the partition does not begin where it did.
grow_partition() {
	first=$(size_of "$data_part" start) && size=$(size_of "$data_part" size) &&
		last=$(($(size_of "$disk" size) - 1)) || return 0
	[ "$last" -le 4294967294 ] || last=4294967294
	[ $((last - first - size)) -gt 65536 ] || return 0
	dd if="/dev/$disk" of=/run/table bs=512 count=1 2>/dev/null || return 0
	printf '%s\n' d 4 n p "$first" "$last" w | fdisk -u "/dev/$disk" >/dev/null 2>&1
	if [ "$(begins_at)" != "$first" ]; then
		dd if=/run/table of="/dev/$disk" bs=512 count=1 conv=notrunc 2>/dev/null
		sync
		say "the data partition could not be made larger"
		return 0
	fi
	# Else with the next start.
	resizepart "/dev/$disk" 4 $((last - first + 1)) || :
}

begins_at() { # the fourth partition, by the table on the disk
	dd if="/dev/$disk" bs=1 skip=502 count=4 2>/dev/null | od -An -t u4 | tr -d ' \n'
}

# The boot partition: what a power cut left there is put in order before it is mounted. It has no
# journal. Whatever comes of it, the start goes on: the system itself is on other partitions.
check_boot() {
	timeout 60 fsck.fat -a -w "$boot_part" >/run/boot-fsck 2>&1 && return
	# Its status is the same after it has repaired everything, and when it could do nothing.
	if timeout 60 fsck.fat -n "$boot_part" >/dev/null 2>&1; then
		say "$boot_part, the boot partition, was damaged and has been repaired"
	else
		say "$boot_part, the boot partition, cannot be repaired: $(tail -n 1 /run/boot-fsck)"
	fi
}

# Mounts /data; words on what is wrong, and status 1.
mount_data() {
	e2fsck -p "$data_part" >/run/fsck 2>&1
	if [ $? -gt 2 ]; then
		# What a person would do who was asked: there is nobody here to ask.
		say "$data_part is damaged and is being repaired"
		e2fsck -fy "$data_part" >>/run/fsck 2>&1
		while read -r line; do
			say "e2fsck: $line"
		done </run/fsck
	fi
	mount -t ext4 -o noatime,lazytime,nosuid,nodev,noexec "$data_part" /data 2>/run/mount && return
	echo "$data_part: $(head -n 1 /run/mount)"
	return 1
}

# A reset is asked for by /data/.reset, which goes last, so that a power cut only delays it; or
# by a file that somebody put on the boot partition. What RAUC knows of the two systems stays.
reset_if_asked() {
	if [ -e "$state/data-problem" ]; then
		[ ! -e /bootpart/naproxy-reset ] ||
			say "factory reset: it waits for a start with the disk's /data"
		return
	fi
	if [ -e /bootpart/naproxy-reset ]; then
		# Not `:`, with which a full disk would end the whole script.
		if ! true 2>/dev/null >/data/.reset; then
			say "factory reset: nothing can be written on /data; it waits for the next start"
			return
		fi
		sync
		# Else it would be asked for again with every start.
		rm /bootpart/naproxy-reset || rm -f /data/.reset
	fi
	[ -e /data/.reset ] || return 0
	say "factory reset: everything is forgotten"
	find /data -mindepth 1 -maxdepth 1 ! -name .reset ! -name lost+found ! -name rauc \
	    -exec rm -rf {} +
	rm -f /bootpart/ssh-authorized_keys /bootpart/naproxy-root-console \
	    /bootpart/naproxy-claim.txt /bootpart/naproxy-settings.toml
	sync
	rm -f /data/.reset
	sync
}
