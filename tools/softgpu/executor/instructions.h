// PTX instructions as C++: a template each, named by the opcode without its types, which are its
// arguments.
//
// Source: PTX ISA 9.0, section 9.7. `.rn` is the rounding of C++ and left out of the names. What is
// not here does not compile, and the compiler names it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "machine.h"

namespace ptx {

using pred = bool;
using u8 = uint8_t;
using s8 = int8_t;
using b8 = uint8_t;
using u16 = uint16_t;
using s16 = int16_t;
using b16 = uint16_t;
using u32 = uint32_t;
using s32 = int32_t;
using b32 = uint32_t;
using u64 = uint64_t;
using s64 = int64_t;
using b64 = uint64_t;
using b128 = unsigned __int128;
using f32 = float;
using f64 = double;

// The low bytes of a register or constant as an operand.
template <typename T, typename R>
T as(R value) {
  if constexpr (std::is_same_v<T, R>) return value;
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  T operand{};
  std::memcpy(&operand, &value, std::min(sizeof operand, sizeof value));
  return operand;
}

// A result into a register, extended as its type says where that is wider.
template <typename R, typename V>
void set(R& target, V value) {
  if constexpr (std::is_integral_v<V> && std::is_integral_v<R>) {
    target = static_cast<R>(value);
  } else {
    static_assert(sizeof(R) == sizeof(V));
    std::memcpy(&target, &value, sizeof value);
  }
}

template <typename T>
T mov(T a) {
  return a;
}
template <typename T, typename Half>
T pack(Half low, Half high) {
  return T{high} << 8 * sizeof(Half) | low;
}
template <typename Half, typename T>
std::tuple<Half, Half> unpack(T a) {
  return {Half(a), Half(a >> 8 * sizeof(Half))};
}
template <typename T>
T selp(T a, T b, bool which) {
  return which ? a : b;
}
template <typename To, typename From>
To cvt(From a) {
  return static_cast<To>(a);
}
template <typename To, typename From>
To cvt_rzi(From a) {
  if (std::isnan(a)) return 0;
  const From most = static_cast<From>(std::numeric_limits<To>::max());
  if (a >= most) return std::numeric_limits<To>::max();
  return a <= 0 ? To{0} : static_cast<To>(a);
}

// Integers wrap: arithmetic in their unsigned type.
template <typename T, bool = std::is_integral_v<T>>
struct Wrapping {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
struct Wrapping<T, false> {
  using type = T;
};
template <typename T>
using wrapping = typename Wrapping<T>::type;

template <typename T>
T add(T a, T b) {
  return T(wrapping<T>(a) + wrapping<T>(b));
}
template <typename T>
T sub(T a, T b) {
  return T(wrapping<T>(a) - wrapping<T>(b));
}
template <typename T>
T mul(T a, T b) {
  return a * b;
}
template <typename T>
T mul_lo(T a, T b) {
  return T(wrapping<T>(a) * wrapping<T>(b));
}
template <typename T>
T mad_lo(T a, T b, T c) {
  return add(mul_lo(a, b), c);
}
template <typename T>
T mul_hi(T a, T b) {
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, b128>;
  return T(Wide(a) * Wide(b) >> 8 * sizeof(T));
}
template <typename T>
auto mul_wide(T a, T b) {
  using Narrow = std::conditional_t<std::is_signed_v<T>, s32, u32>;
  using Wide = std::conditional_t<std::is_signed_v<T>, s64, u64>;
  return std::conditional_t<sizeof(T) == 2, Narrow, Wide>(Wide(a) * Wide(b));
}
template <typename T>
void refuse_zero(T divisor) {
  if (std::is_integral_v<T> && divisor == 0) executor::fail("an integer is divided by zero");
}
template <typename T>
T div(T a, T b) {
  refuse_zero(b);
  return a / b;
}
template <typename T>
T rem(T a, T b) {
  refuse_zero(b);
  return a % b;
}
template <typename T>
T neg(T a) {
  return T(-wrapping<T>(a));
}
template <typename T>
T abs(T a) {
  return std::abs(a);
}
template <typename T>
T fma(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <typename T>
T sqrt(T a) {
  return std::sqrt(a);
}
template <typename T>
T rcp(T a) {
  return T{1} / a;
}
// A number before a NaN, -0 before +0.
template <typename T>
T min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? a : b;
    return std::fmin(a, b);
  } else {
    return std::min(a, b);
  }
}
template <typename T>
T max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? b : a;
    return std::fmax(a, b);
  } else {
    return std::max(a, b);
  }
}

// Comparisons; those that end in u are true for a NaN.
template <typename T>
bool setp_eq(T a, T b) {
  return a == b;
}
template <typename T>
bool setp_ne(T a, T b) {
  return a < b || a > b;
}
template <>
inline bool setp_ne(bool a, bool b) {
  return a != b;
}
template <typename T>
bool setp_lt(T a, T b) {
  return a < b;
}
template <typename T>
bool setp_le(T a, T b) {
  return a <= b;
}
template <typename T>
bool setp_gt(T a, T b) {
  return a > b;
}
template <typename T>
bool setp_ge(T a, T b) {
  return a >= b;
}
template <typename T>
bool setp_neu(T a, T b) {
  return !(a == b);
}
template <typename T>
bool setp_ltu(T a, T b) {
  return !(a >= b);
}
template <typename T>
bool setp_leu(T a, T b) {
  return !(a > b);
}
template <typename T>
bool setp_gtu(T a, T b) {
  return !(a <= b);
}
template <typename T>
bool setp_geu(T a, T b) {
  return !(a < b);
}

// Bits.
template <typename T>
T and_(T a, T b) {
  return T(a & b);
}
template <typename T>
T or_(T a, T b) {
  return T(a | b);
}
template <typename T>
T xor_(T a, T b) {
  return T(a ^ b);
}
template <typename T>
T not_(T a) {
  if constexpr (std::is_same_v<T, bool>)
    return !a;
  else
    return T(~a);
}
template <typename T>
T shl(T a, u32 by) {
  return by < 8 * sizeof(T) ? T(a << by) : T{0};
}
template <typename T>
T shr(T a, u32 by) {
  return T(a >> std::min<u32>(by, 8 * sizeof(T) - 1) >> (by >= 8 * sizeof(T)));
}
template <typename T>
u32 popc(T a) {
  return static_cast<u32>(__builtin_popcountll(a));
}
template <typename T>
u32 clz(T a) {
  return a == 0 ? 8 * sizeof(T) : __builtin_clzll(a) - 64 + 8 * sizeof(T);
}
template <typename T>
u32 bfind(T a) {
  return 8 * sizeof(T) - 1 - clz(a);
}
template <typename T>
u32 bfind_shiftamt(T a) {
  return a == 0 ? ~0u : clz(a);
}
template <typename T>
T brev(T a) {
  T reversed = 0;
  for (size_t i = 0; i < 8 * sizeof(T); ++i) reversed = T(reversed << 1 | (a >> i & 1));
  return reversed;
}
template <typename T>
T bfi(T field, T base, u32 at, u32 length) {
  at &= 255, length &= 255;
  const T mask = shl<T>(length < 8 * sizeof(T) ? shl<T>(1, length) - 1 : ~T{0}, at);
  return T((base & ~mask) | (shl<T>(field, at) & mask));
}
template <typename T>
T shf_l_wrap(T low, T high, u32 by) {
  return T((u64{high} << 32 | low) << (by & 31) >> 32);
}
template <typename T>
T prmt(T a, T b, u32 selector) {
  const u64 bytes = u64{b} << 32 | a;
  T result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 nibble = selector >> 4 * i & 15;
    u32 byte = bytes >> 8 * (nibble & 7) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

}  // namespace ptx
