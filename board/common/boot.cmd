# U-Boot: which of the two systems starts. RAUC writes BOOT_ORDER and BOOT_x_LEFT; a
# system has three tries, counted before the start, and gets them back when the box has
# proved healthy.

test -n "${BOOT_ORDER}" || setenv BOOT_ORDER "A B"
test -n "${BOOT_A_LEFT}" || setenv BOOT_A_LEFT 3
if test -z "${BOOT_B_LEFT}"; then
	setenv BOOT_B_LEFT 3
	# A new card has no second system: nobody may take it for a way back.
	size ${devtype} ${devnum}:3 boot/Image || setenv BOOT_B_LEFT 0
fi

setenv slot
for candidate in "${BOOT_ORDER}"; do
	if test -n "${slot}"; then
		true
	elif test "${candidate}" = A && test ${BOOT_A_LEFT} -gt 0; then
		setexpr BOOT_A_LEFT ${BOOT_A_LEFT} - 1
		setenv slot A
		setenv number 2
	elif test "${candidate}" = B && test ${BOOT_B_LEFT} -gt 0; then
		setexpr BOOT_B_LEFT ${BOOT_B_LEFT} - 1
		setenv slot B
		setenv number 3
	fi
done

# What U-Boot has found out about this board is not saved: it would believe that when the card is in
# another one, with another device tree and address. These two are the shell's, not saved either.
tree="${fdtfile}"
address="${ethaddr}"
env delete -f fdtfile fdt_addr ethaddr usbethaddr serial#

# Both have failed: give both their tries back and start anew, rather than stop. RAUC takes
# what it marks as bad out of the order.
if test -z "${slot}"; then
	test "${BOOT_ORDER}" = A && setenv BOOT_ORDER "A B"
	test "${BOOT_ORDER}" = B && setenv BOOT_ORDER "B A"
	setenv BOOT_A_LEFT 3
	setenv BOOT_B_LEFT 3
	saveenv
	reset
fi
saveenv
setenv fdtfile "${tree}"
setenv -f ethaddr "${address}"

setenv bootargs "root=@DISK@${number} rootfstype=squashfs ro rootwait rauc.slot=${slot} panic=10 softdog.soft_active_on_boot=1 softdog.soft_margin=180 loglevel=5 console=@CONSOLE@"
if load ${devtype} ${devnum}:${number} ${kernel_addr_r} boot/Image; then
	echo "Naproxy: system ${slot}"
	if test -n "@DTB@"; then
		load ${devtype} ${devnum}:${number} ${fdt_addr_r} boot/${fdtfile} && booti ${kernel_addr_r} - ${fdt_addr_r}
	else
		booti ${kernel_addr_r} - ${fdtcontroladdr}
	fi
fi
# The kernel is not there or did not start: the next try is another system's.
reset
