<?php
// A program of PHP's, by nginx and PHP-FPM: what it is told of a request, sessions.
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
default:
	echo 'first';
}
