#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Proofs that a message comes from a process that knows a secret.
namespace stepcast::runtime {

// From the operating system's generator: unpredictable.
std::string RandomBytes(std::size_t size);

// HMAC-SHA-256 (RFC 2104): 32 bytes that cannot be made without the secret.
std::string AuthenticationCode(std::string_view secret, std::string_view message);

// Whether `code` is that of the message. Takes the same time wherever they differ.
bool IsAuthentic(std::string_view secret, std::string_view message, std::string_view code);

}  // namespace stepcast::runtime
