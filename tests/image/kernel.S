/* A kernel that says its command line on the first serial port, and then resets the
 * machine as a panic does. */
	.code32
	.globl	_start
_start:
	cld
	mov	0x228(%esi), %esi	/* boot_params.hdr.cmd_line_ptr */
next:
	lodsb
	test	%al, %al
	jz	reset
	mov	%al, %ah
	mov	$0x3fd, %dx
busy:
	in	%dx, %al
	test	$0x20, %al
	jz	busy
	mov	%ah, %al
	mov	$0x3f8, %dx
	out	%al, %dx
	jmp	next
reset:
	mov	$0xfe, %al
	out	%al, $0x64
	hlt
