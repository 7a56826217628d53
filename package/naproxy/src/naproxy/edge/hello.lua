-- For whom a TLS connection is, for haproxy: `lua.hello` is the name in its ClientHello in lower
-- case, "-" if it gives none, "!" if it is not a ClientHello, and nothing while there is too little
-- of it. HAProxy's own req.ssl_sni reads one record, but a ClientHello may be split over several
-- (RFC 8446, 5.1), and post-quantum keys make it large.

local HANDSHAKE, CLIENT_HELLO, SERVER_NAME, HOST_NAME = 22, 1, 0, 0
local RECORD_MOST = 16384
local HELLO_MOST = 32768 -- what haproxy's buffer holds beside the records' heads

local INVALID, NAMELESS = "!", "-"

-- What follows at a position: `size` bytes of length, and so many bytes; then the next position.
local function vector(text, at, size)
	if #text < at + size - 1 then
		error(INVALID)
	end
	local length = string.unpack(">I" .. size, text, at)
	local first = at + size
	if #text < first + length - 1 then
		error(INVALID)
	end
	return text:sub(first, first + length - 1), first + length
end

-- RFC 6066, 3: one name of the type host_name.
local function name_in(extension)
	local list, rest = vector(extension, 1, 2)
	if rest <= #extension or list:byte(1) ~= HOST_NAME then
		error(INVALID)
	end
	local name
	name, rest = vector(list, 2, 2)
	if rest <= #list then
		error(INVALID)
	end
	return name:match("^[%w._-]+$") and name:lower() or NAMELESS
end

-- RFC 8446, 4.1.2, and 4.2 for the extensions; without the head of the message.
local function name_of(hello)
	local _, at, extensions, rest
	_, at = vector(hello, 2 + 32 + 1, 1) -- version, random; the session
	_, at = vector(hello, at, 2) -- ciphers
	_, at = vector(hello, at, 1) -- compression
	if at > #hello then
		return NAMELESS
	end
	extensions, rest = vector(hello, at, 2)
	if rest <= #hello then
		error(INVALID)
	end
	local found
	at = 1
	while at <= #extensions do
		if #extensions < at + 3 then
			error(INVALID)
		end
		local kind = string.unpack(">I2", extensions, at)
		local body
		body, at = vector(extensions, at + 2, 2)
		if kind == SERVER_NAME then
			if found then
				error(INVALID) -- which of two a server takes, nobody knows
			end
			found = name_in(body)
		end
	end
	return found or NAMELESS
end

-- Takes the records that are whole. `seen` is what was read before, so that each byte is read once,
-- however small the pieces are in which it comes.
local function take(seen, data)
	local at = 1
	while not seen.wanted or seen.length < seen.wanted do
		if data:byte(at) and data:byte(at) ~= HANDSHAKE then
			error(INVALID)
		end
		if #data < at + 4 then
			break
		end
		local _, major, _, length = string.unpack(">BBBI2", data, at)
		if major ~= 3 or length == 0 or length > RECORD_MOST then
			error(INVALID)
		end
		if #data < at + 4 + length then
			break
		end
		seen.parts[#seen.parts + 1] = data:sub(at + 5, at + 4 + length)
		seen.length = seen.length + length
		at = at + 5 + length
		if not seen.wanted and seen.length >= 4 then
			seen.parts = { table.concat(seen.parts) }
			local kind, size = string.unpack(">BI3", seen.parts[1])
			if kind ~= CLIENT_HELLO or size > HELLO_MOST then
				error(INVALID)
			end
			seen.wanted = 4 + size
		end
	end
	seen.at = seen.at + at - 1
	if seen.wanted and seen.length >= seen.wanted then
		return name_of(table.concat(seen.parts):sub(5, seen.wanted))
	end
end

core.register_fetches("hello", function(txn)
	local seen = txn:get_priv()
	if not seen then
		seen = { at = 0, length = 0, parts = {} }
		txn:set_priv(seen)
	end
	local fine, name = pcall(take, seen, txn.f:req_payload(seen.at, 0) or "")
	if not fine then
		return INVALID
	end
	if name then
		return name
	end
	-- Not nil: to haproxy that is a value, too.
end)
