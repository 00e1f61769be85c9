#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <functional>
#include <random>

#include "sim/base/error.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::complex_types_test {
namespace {

using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

Numbers random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal;
  Numbers numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.emplace_back(normal(draw), normal(draw));
  return numbers;
}

Numbers real_parts(Numbers numbers) {
  for (Complex& number : numbers) number = number.real();
  return numbers;
}

Bytes bytes_of(const Numbers& numbers, bool is_real) {
  std::vector<float> words;
  for (const Complex& number : numbers) {
    words.push_back(static_cast<float>(number.real()));
    if (!is_real) words.push_back(static_cast<float>(number.imag()));
  }
  Bytes bytes(words.size() * sizeof(float));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

Numbers numbers_in(const compiler::HostArray& array) {
  std::vector<float> words(array.bytes.size() / sizeof(float));
  std::memcpy(words.data(), array.bytes.data(), array.bytes.size());
  Numbers numbers;
  const bool is_real = array.shape.type == hlo::ElementType::kF32;
  for (std::size_t i = 0; i < words.size(); i += is_real ? 1 : 2) {
    numbers.emplace_back(words[i], is_real ? 0 : words[i + 1]);
  }
  return numbers;
}

/// The results of a module on parameters, which are complex or (name "x_real...") real ones.
std::vector<Numbers> results_of(const std::string& text, const std::vector<Numbers>& parameters) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  CoreArguments arguments;
  const hlo::Computation& entry = module.entry_computation();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const hlo::Shape& shape = entry.at(entry.parameters().at(i)).shape;
    arguments.parameters.push_back(bytes_of(parameters[i], shape.type == hlo::ElementType::kF32));
  }
  std::vector<Numbers> results;
  const CompiledRun run = run_compiled(module, {arguments});
  for (const compiler::HostArray& output : run.outputs.at(0)) {
    results.push_back(numbers_in(output));
  }
  return results;
}

double error_of(const Numbers& found, const Numbers& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    error += std::norm(found[i] - expected[i]);
    norm += std::norm(expected[i]);
  }
  return std::sqrt(error / norm);
}

/// The transform of each of `rows` rows, by its definition.
Numbers transform(const Numbers& x, std::size_t rows, bool is_inverse) {
  const std::size_t n = x.size() / rows;
  Numbers result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double part = static_cast<double>(i % n * j % n) / static_cast<double>(n);
      result[i] += x[i / n * n + j] * std::polar(1.0, (is_inverse ? 2 : -2) * M_PI * part);
    }
    if (is_inverse) result[i] /= static_cast<double>(n);
  }
  return result;
}

std::string shape_text(const char* type, std::size_t rows, std::size_t n) {
  return std::string(type) + "[" + std::to_string(rows) + "," + std::to_string(n) + "]";
}

std::string transform_of(const char* kind, const std::string& from, const std::string& to,
                         std::size_t n) {
  return "HloModule f\nENTRY main {\n  x = " + from + " parameter(0)\n  ROOT y = " + to +
         " fft(x), fft_type=" + kind + ", fft_length={" + std::to_string(n) + "}\n}\n";
}

/// Lengths by one product, in two steps, and a long prime.
TEST(ComplexTypes, TransformsAreThoseOfTheirDefinition) {
  for (const std::size_t n : {1U, 2U, 7U, 40U, 262U, 300U, 257U}) {
    const std::string shape = shape_text("c64", 2, n);
    const Numbers x = random_numbers(2 * n, static_cast<unsigned>(n));
    for (const bool is_inverse : {false, true}) {
      const Numbers found =
          results_of(transform_of(is_inverse ? "IFFT" : "FFT", shape, shape, n), {x}).at(0);
      EXPECT_LT(error_of(found, transform(x, 2, is_inverse)), 1e-6) << n << " " << is_inverse;
    }
  }
}

/// Of 2, 3, 5, 7, 11, 13 or 16 pieces, and pieces of pieces.
TEST(ComplexTypes, LongTransformsMeetAcrossPieces) {
  for (const std::size_t n : {514U, 768U, 1155U, 1430U, 2304U, 4608U}) {
    const std::size_t kept = n / 2 + 1;
    const std::string shape = shape_text("c64", 1, n), half_shape = shape_text("c64", 1, kept);
    const std::string real_shape = shape_text("f32", 1, n);
    const Numbers x = random_numbers(n, static_cast<unsigned>(n)), real = real_parts(x);
    for (const bool is_inverse : {false, true}) {
      const Numbers found =
          results_of(transform_of(is_inverse ? "IFFT" : "FFT", shape, shape, n), {x}).at(0);
      EXPECT_LT(error_of(found, transform(x, 1, is_inverse)), 1e-6) << n << " " << is_inverse;
    }
    Numbers half = transform(real, 1, false);
    half.resize(kept);
    EXPECT_LT(
        error_of(results_of(transform_of("RFFT", real_shape, half_shape, n), {real}).at(0), half),
        1e-6)
        << n;
    EXPECT_LT(
        error_of(results_of(transform_of("IRFFT", half_shape, real_shape, n), {half}).at(0), real),
        1e-6)
        << n;
  }
}

TEST(ComplexTypes, ALongPrimeIsAConvolution) {
  const std::size_t n = 2053;
  const std::string shape = shape_text("c64", 1, n);
  const Numbers x = random_numbers(n, 4);
  const Numbers found = results_of(transform_of("FFT", shape, shape, n), {x}).at(0);
  EXPECT_LT(error_of(found, transform(x, 1, false)), 1e-6);
}

/// Even and odd lengths: the last number of an even one has no partner.
TEST(ComplexTypes, RealTransformsGoThereAndBack) {
  for (const std::size_t n : {1U, 2U, 9U, 24U, 300U, 301U}) {
    const std::size_t kept = n / 2 + 1;
    const Numbers x = real_parts(random_numbers(3 * n, 5));
    const Numbers whole = transform(x, 3, false);
    Numbers half;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (i % n < kept) half.push_back(whole[i]);
    }
    const std::string real = shape_text("f32", 3, n), complex = shape_text("c64", 3, kept);
    EXPECT_LT(error_of(results_of(transform_of("RFFT", real, complex, n), {x}).at(0), half), 1e-6);
    EXPECT_LT(error_of(results_of(transform_of("IRFFT", complex, real, n), {half}).at(0), x), 1e-6);
  }
}

TEST(ComplexTypes, SeveralDimensionsAreTransformedOneByOne) {
  const Numbers x = random_numbers(2 * 6 * 10, 6);
  const Numbers found = results_of(
                            "HloModule s\nENTRY main {\n  x = c64[2,6,10] parameter(0)\n"
                            "  ROOT y = c64[2,6,10] fft(x), fft_type=FFT, fft_length={6,10}\n}\n",
                            {x})
                            .at(0);
  const Numbers rows = transform(x, 12, false);
  Numbers turned(rows.size()), expected(rows.size());
  const auto place = [](std::size_t b, std::size_t i, std::size_t j) {
    return (b * 6 + i) * 10 + j;
  };
  const auto across = [](std::size_t b, std::size_t i, std::size_t j) {
    return (b * 10 + j) * 6 + i;
  };
  const auto each = [&](const auto& function) {
    for (std::size_t k = 0; k < rows.size(); ++k) function(k / 60, k / 10 % 6, k % 10);
  };
  each([&](auto b, auto i, auto j) { turned[across(b, i, j)] = rows[place(b, i, j)]; });
  const Numbers columns = transform(turned, 20, false);
  each([&](auto b, auto i, auto j) { expected[place(b, i, j)] = columns[across(b, i, j)]; });
  EXPECT_LT(error_of(found, expected), 1e-6);
}

TEST(ComplexTypes, FunctionsHaveTheirPrincipalValues) {
  const Numbers x = random_numbers(300, 7), y = random_numbers(300, 8);
  using Function = std::function<Complex(Complex, Complex)>;
  const std::vector<std::pair<const char*, Function>> functions = {
      {"multiply(x, y)", [](Complex a, Complex b) { return a * b; }},
      {"divide(x, y)", [](Complex a, Complex b) { return a / b; }},
      {"subtract(x, y)", [](Complex a, Complex b) { return a - b; }},
      {"power(x, y)", [](Complex a, Complex b) { return std::pow(a, b); }},
      {"exponential(x)", [](Complex a, Complex) { return std::exp(a); }},
      {"exponential-minus-one(x)", [](Complex a, Complex) { return std::exp(a) - 1.0; }},
      {"log(x)", [](Complex a, Complex) { return std::log(a); }},
      {"log-plus-one(x)", [](Complex a, Complex) { return std::log(1.0 + a); }},
      {"sqrt(x)", [](Complex a, Complex) { return std::sqrt(a); }},
      {"rsqrt(x)", [](Complex a, Complex) { return 1.0 / std::sqrt(a); }},
      {"sine(x)", [](Complex a, Complex) { return std::sin(a); }},
      {"cosine(x)", [](Complex a, Complex) { return std::cos(a); }},
      {"tan(x)", [](Complex a, Complex) { return std::tan(a); }},
      {"tanh(x)", [](Complex a, Complex) { return std::tanh(a); }},
      {"logistic(x)", [](Complex a, Complex) { return 1.0 / (1.0 + std::exp(-a)); }},
      {"sign(x)", [](Complex a, Complex) { return a / std::abs(a); }},
      {"negate(x)", [](Complex a, Complex) { return -a; }},
  };
  std::string text =
      "HloModule c\nENTRY main {\n  x = c64[300] parameter(0)\n  y = c64[300] parameter(1)\n";
  std::string types, names;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string name = "r" + std::to_string(i);
    text += "  " + name + " = c64[300] " + functions[i].first + "\n";
    types += (i == 0 ? "" : ", ") + std::string("c64[300]");
    names += (i == 0 ? "" : ", ") + name;
  }
  const auto results =
      results_of(text + "  ROOT t = (" + types + ") tuple(" + names + ")\n}\n", {x, y});
  for (std::size_t i = 0; i < functions.size(); ++i) {
    Numbers expected;
    for (std::size_t k = 0; k < x.size(); ++k) expected.push_back(functions[i].second(x[k], y[k]));
    EXPECT_LT(error_of(results.at(i), expected), 1e-5) << functions[i].first;
  }
}

/// Large and small numbers whose squares are none.
TEST(ComplexTypes, LengthsAndQuotientsStayInRange) {
  const Numbers x{{3e30, 4e30}, {3e-30, -4e-30}, {0, 0}, {0, -2}};
  const Numbers y{{1e30, 1e30}, {1e-30, 0}, {1, 1}, {0, 4}};
  const auto results = results_of(
      "HloModule l\nENTRY main {\n  x = c64[4] parameter(0)\n  y = c64[4] parameter(1)\n"
      "  a = f32[4] abs(x)\n  q = c64[4] divide(x, y)\n  ROOT t = (f32[4], c64[4]) tuple(a, "
      "q)\n}\n",
      {x, y});
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(results[0][i].real(), std::abs(x[i]), 1e-6 * std::abs(x[i]));
    EXPECT_NEAR(std::abs(results[1][i] - x[i] / y[i]), 0, 1e-6 * std::abs(x[i] / y[i]));
  }
}

/// A loop's state, sums over rows, sums into rows, a product, and what a call returns.
TEST(ComplexTypes, LoopsSumsAndProductsHandPartsOn) {
  const Numbers x = random_numbers(6, 9), w = random_numbers(36, 10);
  const auto results = results_of(
      "HloModule h\nsum {\n  a = c64[] parameter(0)\n  b = c64[] parameter(1)\n"
      "  ROOT c = c64[] add(a, b)\n}\n"
      "twice {\n  a = c64[6] parameter(0)\n  ROOT c = c64[6] add(a, a)\n}\n"
      "body {\n  s = (s32[], c64[6]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  x = c64[6] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  y = c64[6] multiply(x, x)\n"
      "  ROOT t = (s32[], c64[6]) tuple(j, y)\n}\n"
      "test {\n  s = (s32[], c64[6]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(3)\n  ROOT p = pred[] compare(i, n), direction=LT\n}\n"
      "ENTRY main {\n  x = c64[6] parameter(0)\n  w = c64[6,6] parameter(1)\n"
      "  z = s32[] constant(0)\n  s = (s32[], c64[6]) tuple(z, x)\n"
      "  l = (s32[], c64[6]) while(s), condition=test, body=body\n"
      "  y = c64[6] get-tuple-element(l), index=1\n  o = c64[] constant((1, 2))\n"
      "  r = c64[6] reduce(w, o), dimensions={0}, to_apply=sum\n"
      "  at = s32[2,1] constant({{1}, {1}})\n  u = c64[2] slice(x), slice={[2:4]}\n"
      "  a = c64[6] scatter(x, at, u), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
      "  m = c64[6,6] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "operand_precision={highest,highest}\n  c = c64[6] call(x), to_apply=twice\n"
      "  ROOT t = (c64[6], c64[6], c64[6], c64[6,6], c64[6]) tuple(y, r, a, m, c)\n}\n",
      {x, w});
  Numbers power, sums(6, {1, 2}), added = x, product(36), twice;
  for (const Complex& number : x) {
    power.push_back(std::pow(number, 8));
    twice.push_back(2.0 * number);
  }
  for (std::size_t i = 0; i < 36; ++i) {
    sums[i % 6] += w[i];
    for (std::size_t k = 0; k < 6; ++k) product[i] += w[i / 6 * 6 + k] * w[k * 6 + i % 6];
  }
  added[1] += x[2] + x[3];
  const std::vector<Numbers> expected{power, sums, added, product, twice};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(error_of(results.at(i), expected[i]), 1e-5) << i;
  }
}

/// `count` rows x: h becomes h * x + x, and each is kept by a call, as JAX writes it.
std::string stacking_text(std::size_t count) {
  const std::string n = std::to_string(count), all = "c64[" + n + ",8,128]",
                    state = "(s32[], c64[8,128], " + all + ", " + all + ")";
  return "HloModule k\nkeep {\n  a = " + all +
         " parameter(0)\n  h = c64[8,128] parameter(1)\n  i = s32[] parameter(2)\n"
         "  z = s32[] constant(0)\n  r = c64[1,8,128] reshape(h)\n  ROOT u = " +
         all + " dynamic-update-slice(a, r, i, z, z)\n}\nbody {\n  s = " + state +
         " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
         "  h = c64[8,128] get-tuple-element(s), index=1\n  x = " +
         all + " get-tuple-element(s), index=2\n  y = " + all +
         " get-tuple-element(s), index=3\n  z = s32[] constant(0)\n"
         "  d = c64[1,8,128] dynamic-slice(x, i, z, z), dynamic_slice_sizes={1,8,128}\n"
         "  r = c64[8,128] reshape(d)\n  p = c64[8,128] multiply(h, r)\n"
         "  g = c64[8,128] add(p, r)\n  k = " +
         all +
         " call(y, g, i), to_apply=keep\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
         "  ROOT t = " +
         state + " tuple(j, g, x, k)\n}\ntest {\n  s = " + state +
         " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(" + n +
         ")\n  ROOT p = pred[] compare(i, n), direction=LT\n}\nENTRY main {\n"
         "  h = c64[8,128] parameter(0)\n  x = " +
         all +
         " parameter(1)\n  z = s32[] constant(0)\n  o = c64[] constant((0, 0))\n  y = " + all +
         " broadcast(o), dimensions={}\n  s = " + state + " tuple(z, h, x, y)\n  l = " + state +
         " while(s), condition=test, body=body\n  ROOT k = " + all +
         " get-tuple-element(l), index=3\n}\n";
}

/// An iteration moves the numbers that it reads and keeps, not all that are kept.
TEST(ComplexTypes, LoopsKeepNumbersRowByRow) {
  constexpr std::size_t kRow = 8 * 128;
  std::uint64_t cycles[2] = {};
  for (const std::size_t count : {20U, 60U}) {
    Numbers h = random_numbers(kRow, 21), x = random_numbers(count * kRow, 22), expected;
    for (Complex& number : x) number *= 0.2;
    const hlo::Module module = hlo::read_hlo_text("test.hlo", stacking_text(count));
    CoreArguments arguments;
    arguments.parameters = {bytes_of(h, false), bytes_of(x, false)};
    const CompiledRun run = run_compiled(module, {arguments});
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected.push_back(h[i % kRow] = h[i % kRow] * x[i] + x[i]);
    }
    EXPECT_LT(error_of(numbers_in(run.outputs.at(0).at(0)), expected), 1e-5) << count;
    cycles[count == 20 ? 0 : 1] = run.result.cycles;
  }
  // In a host's array real and imaginary parts alternate: what parts them is in both.
  EXPECT_LT(cycles[1], 3 * cycles[0] + 3 * cycles[0] / 10);
}

/// A state that is a result as it is, and one that an inner loop's state becomes.
TEST(ComplexTypes, StatesOfLoopsThatAreUsedWholeStayWhole) {
  const Numbers x = random_numbers(6, 23);
  const std::string state = "(s32[], c64[6])";
  const std::string text =
      "HloModule w\ninner_body {\n  s = " + state +
      " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  x = c64[6] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  y = c64[6] multiply(x, x)\n  ROOT t = " +
      state + " tuple(j, y)\n}\ninner_test {\n  s = " + state +
      " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(2)\n"
      "  ROOT p = pred[] compare(i, n), direction=LT\n}\nbody {\n  s = " +
      state + " parameter(0)\n  ROOT l = " + state +
      " while(s), condition=inner_test, body=inner_body\n}\ntest {\n  s = " + state +
      " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(2)\n"
      "  ROOT p = pred[] compare(i, n), direction=LT\n}\nENTRY main {\n"
      "  x = c64[6] parameter(0)\n  z = s32[] constant(0)\n  s = " +
      state + " tuple(z, x)\n  ROOT l = " + state + " while(s), condition=test, body=body\n}\n";
  Numbers expected;
  for (const Complex& number : x) expected.push_back(std::pow(number, 4));
  EXPECT_LT(error_of(results_of(text, {x}).at(1), expected), 1e-5);
}

/// By the imaginary part where the real ones are equal, as NumPy sorts; a payload follows.
TEST(ComplexTypes, SortsMoveBothParts) {
  Numbers x = random_numbers(30, 11), payload = random_numbers(30, 12);
  for (std::size_t i = 0; i < 10; ++i) x[3 * i] = {0.5, x[3 * i].imag()};
  const auto results = results_of(
      "HloModule s\nless {\n  a = c64[] parameter(0)\n  b = c64[] parameter(1)\n"
      "  p = c64[] parameter(2)\n  q = c64[] parameter(3)\n"
      "  ar = f32[] real(a)\n  br = f32[] real(b)\n  ai = f32[] imag(a)\n  bi = f32[] imag(b)\n"
      "  lr = pred[] compare(ar, br), direction=LT\n  er = pred[] compare(ar, br), direction=EQ\n"
      "  li = pred[] compare(ai, bi), direction=LT\n  n = pred[] and(er, li)\n"
      "  ROOT l = pred[] or(lr, n)\n}\n"
      "ENTRY main {\n  x = c64[30] parameter(0)\n  p = c64[30] parameter(1)\n"
      "  ROOT s = (c64[30], c64[30]) sort(x, p), dimensions={0}, to_apply=less\n}\n",
      {x, payload});
  std::vector<std::size_t> order(30);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(x[a].real(), x[a].imag()) < std::pair(x[b].real(), x[b].imag());
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(results.at(0).at(i), x[order[i]]) << i;
    EXPECT_EQ(results.at(1).at(i), payload[order[i]]) << i;
  }
}

/// Each element at most once; the update at 9 lies outside.
TEST(ComplexTypes, ProductsAreScattered) {
  const Numbers x = random_numbers(24, 13), u = random_numbers(9, 14);
  const std::string text =
      "HloModule p\nproduct {\n  a = c64[] parameter(0)\n  b = c64[] parameter(1)\n"
      "  ROOT c = c64[] multiply(a, b)\n}\n"
      "ENTRY main {\n  x = c64[8,3] parameter(0)\n  u = c64[3,3] parameter(1)\n"
      "  at = s32[3,1] constant({{6}, {9}, {2}})\n"
      "  ROOT r = c64[8,3] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, "
      "to_apply=product\n}\n";
  Numbers expected = x;
  for (std::size_t i = 0; i < 3; ++i) {
    expected[18 + i] *= u[i];
    expected[6 + i] *= u[6 + i];
  }
  EXPECT_LT(error_of(results_of(text, {x, u}).at(0), expected), 1e-6);
  // Without the promise, and with three updates of one row.
  std::string often = text;
  const std::string once = "unique_indices=true, ";
  often.erase(often.find(once), once.size());
  EXPECT_LT(error_of(results_of(often, {x, u}).at(0), expected), 1e-6);
  often.replace(often.find("{{6}, {9}, {2}}"), 15, "{{6}, {6}, {6}}");
  for (std::size_t i = 0; i < 3; ++i) {
    expected[18 + i] = x[18 + i] * u[i] * u[3 + i] * u[6 + i];
    expected[6 + i] = x[6 + i];
  }
  EXPECT_LT(error_of(results_of(often, {x, u}).at(0), expected), 1e-6);
}

TEST(ComplexTypes, WhatHasNoFormIsRefusedByName) {
  const auto said = [](const std::string& operation) -> std::string {
    const std::string text =
        "HloModule r\nENTRY main {\n  x = c64[4,4] parameter(0)\n  ROOT bad = c64[4,4] " +
        operation + "\n}\n";
    try {
      results_of(text, {random_numbers(16, 1)});
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_NE(said("cholesky(x), lower=true").find("bad: expected an operation that has a form on"),
            std::string::npos);
  EXPECT_NE(said("cholesky(x), lower=true, metadata={op_name=\"jit(f)/cholesky\" "
                 "source_file=\"model.py\" source_line=12}")
                .find("bad, from jit(f)/cholesky (model.py:12): expected an operation that has"),
            std::string::npos);
  EXPECT_NE(said("fft(x), fft_type=DCT, fft_length={4}").find("expected fft_type=FFT"),
            std::string::npos);
  EXPECT_NE(said("fft(x), fft_type=FFT, fft_length={}").find("expected fft_length"),
            std::string::npos);
  EXPECT_NE(said("fft(x), fft_type=FFT, fft_length={8}").find("expected a length of 4"),
            std::string::npos);
}

}  // namespace
}  // namespace tpu::test::complex_types_test
