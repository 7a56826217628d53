<?php
/* A must-use plug-in: pages of a shop that are not the same for everybody, or not for long, as
 * shops have them. SHOP_BEGIN_S and SHOP_HOUR_S are a clock that runs faster. */

function shop_hour(): int
{
	return (int) ((microtime(true) - SHOP_BEGIN_S) / SHOP_HOUR_S);
}

add_shortcode('price', fn() => '<p>Until the full hour: ' . (20 + shop_hour() % 24) . ' EUR</p>');
add_shortcode('day', fn() => '<p>Day ' . intdiv(shop_hour(), 24) . '</p>');
add_shortcode('open', fn() => shop_hour() % 24 < 9 ? 'We have opened' : 'We have closed');
add_shortcode('device', fn() => wp_is_mobile() ? 'Swipe' : 'Click');
add_shortcode('language', fn() => strncmp($_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? '', 'de', 2) ? 'Hello' : 'Hallo');
add_shortcode('order', fn() => '<form method="post">' . wp_nonce_field('order', '_wpnonce', true, false) . '</form>');
add_shortcode('quote', fn() => 'Quote ' . random_int(1, 1000000));
add_shortcode('basket', fn() => 'In your basket: ' . (int) ($_COOKIE['shop_basket'] ?? 0));

add_action('template_redirect', function () {
	if (is_single('basket') && !isset($_COOKIE['shop_basket']))
		setcookie('shop_basket', '0', 0, '/');
});
