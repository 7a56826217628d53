<?php
/* A must-use plug-in: orders of a shop, and webhooks checked as their senders' docs say.
 * What came is written down as it came, so that a second delivery shows. */

const SHOP_TOLERANCE_S = 300; // as Stripe's own libraries have it

function shop_keep(string $kind, string $name): int
{
	global $wpdb;
	$wpdb->insert('shop_received', ['kind' => $kind, 'name' => $name]);
	return $wpdb->insert_id;
}

function shop_order(WP_REST_Request $request): WP_REST_Response
{
	$order = shop_keep('order', (string) $request['reference']);
	return new WP_REST_Response(['order' => $order], 201);
}

function shop_stripe(WP_REST_Request $request): WP_REST_Response
{
	parse_str(str_replace(',', '&', (string) $request->get_header('stripe_signature')), $part);
	$sent_s = (int) ($part['t'] ?? 0);
	$wanted = hash_hmac('sha256', $sent_s . '.' . $request->get_body(), SHOP_STRIPE_SECRET);
	if (!hash_equals($wanted, $part['v1'] ?? '') || abs(time() - $sent_s) > SHOP_TOLERANCE_S)
		return new WP_REST_Response(['error' => 'signature'], 400);
	return new WP_REST_Response(['kept' => shop_keep('stripe', $request['id'])]);
}

function shop_github(WP_REST_Request $request): WP_REST_Response
{
	$wanted = 'sha256=' . hash_hmac('sha256', $request->get_body(), SHOP_GITHUB_SECRET);
	if (!hash_equals($wanted, (string) $request->get_header('x_hub_signature_256')))
		return new WP_REST_Response(['error' => 'signature'], 400);
	return new WP_REST_Response(['kept' => shop_keep('github', $request->get_header('x_github_delivery'))]);
}

add_action('rest_api_init', function () {
	foreach (['orders' => 'shop_order', 'stripe' => 'shop_stripe', 'github' => 'shop_github'] as $path => $does)
		register_rest_route('shop/v1', $path, [
			'methods' => 'POST',
			'callback' => $does,
			'permission_callback' => '__return_true',
		]);
});
