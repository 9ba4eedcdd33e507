#include "src/runtime/authentication.h"

#include <sodium.h>

#include "src/base/check.h"

namespace stepcast::runtime {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void Initialise() {
  static const int initialised = sodium_init();  // 1: it was before
  STEPCAST_CHECK(initialised >= 0, "the system has a generator of random numbers");
}

}  // namespace

std::string RandomBytes(std::size_t size) {
  Initialise();
  std::string bytes(size, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string AuthenticationCode(std::string_view secret, std::string_view message) {
  Initialise();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, Bytes(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, Bytes(message), message.size());
  std::string code(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(code.data()));
  return code;
}

bool IsAuthentic(std::string_view secret, std::string_view message, std::string_view code) {
  const std::string right = AuthenticationCode(secret, message);
  return code.size() == right.size() && sodium_memcmp(right.data(), code.data(), right.size()) == 0;
}

}  // namespace stepcast::runtime
