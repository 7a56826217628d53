<?php
// A program of PHP's, by nginx and PHP-FPM: what it is told of a request, sessions, bytes that it packs.
switch (strtok($_SERVER['REQUEST_URI'], '?')) {
case '/server':
	header('Cache-Control: public, max-age=60');
	header('Content-Type: text/html');
	foreach ($_SERVER as $name => $value)
		if (strpos($name, 'HTTP_') === 0)
			echo "$name=$value\n";
	break;
case '/session':
	session_cache_limiter('nocache');
	session_start();
	header_remove('Set-Cookie');
	header_remove('Cache-Control');
	header_remove('Expires');
	echo '<html>' . microtime() . '</html>';
	break;
case '/packed':
	ini_set('zlib.output_compression', '0');
	header('Content-Type: text/plain');
	header('Content-Encoding: gzip');
	$member = gzencode('first ');
	$kinds = [
		'member' => $member . gzencode('second'),
		'zeros' => $member . str_repeat("\0", 512),
		'newline' => $member . "\n",
		'plain' => 'not packed at all',
		'whole' => $member,
		'cut' => substr($member, 0, -4),
	];
	if (isset($_GET['cache']))
		header('Cache-Control: ' . $_GET['cache']);
	header('X-Sent: ' . base64_encode($kinds[$_GET['kind']]));
	// In pieces of HTTP/1.1, as programs send what they make.
	foreach (str_split($kinds[$_GET['kind']], 5) as $piece) {
		echo $piece;
		flush();
	}
	break;
default:
	echo 'first';
}
