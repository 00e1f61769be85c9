"""Tests of the reference values: products are rounded as the chip rounds them, wherever they stand. Needs jax (on the CPU)."""

import importlib.util
import os
import sys
import unittest

import_path = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "workloads", "capture")
sys.path.insert(0, import_path)
os.environ["JAX_PLATFORMS"] = "cpu"

HAS_JAX = importlib.util.find_spec("jax") is not None

if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import ml_dtypes
    import numpy as np
    from jax import lax

    from tpusim_capture.reference import depthwise_operands, reference_values

    RANDOM = np.random.default_rng(5)
    X = RANDOM.normal(size=(16, 32)).astype(np.float32)
    W = (RANDOM.normal(size=(32, 32)) / 6).astype(np.float32)


def references(function, *arguments):
    """fp32 outputs, rounded outputs, sensitivity, notes."""
    module = jax.jit(function, keep_unused=True).lower(*arguments).compiler_ir("stablehlo")
    values = reference_values(module, [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)])
    return values.exact, values.rounded, values.sensitivity, values.notes


def bf16(array):
    return np.asarray(array).astype(ml_dtypes.bfloat16).astype(np.float64)


def rounded_product(x, w):
    return (bf16(x) @ bf16(w)).astype(np.float32)


def distance(found, expected):
    return np.linalg.norm(np.asarray(found, np.float64) - expected) / np.linalg.norm(expected)


@unittest.skipUnless(HAS_JAX, "needs jax")
class ProductsAreRounded(unittest.TestCase):
    def expect(self, function, expected, *arguments, passes=1):
        """The rounded output equals `expected`, the other one does not."""
        outputs, rounded, _, _ = references(function, *arguments)
        self.assertLess(distance(rounded[0], expected), 1e-6)
        if passes == 1:
            self.assertGreater(distance(outputs[0], expected), 5e-4)

    def test_in_a_dot(self):
        self.expect(lambda x, w: x @ w, rounded_product(X, W), X, W)

    def test_where_one_operand_is_bf16_already_the_other_is_rounded(self):
        narrow = W.astype(ml_dtypes.bfloat16)
        self.expect(lambda x, w: lax.dot(x, w, preferred_element_type=jnp.float32), rounded_product(X, W), X, narrow)

    def test_complex_numbers_in_three_real_products(self):
        """As XLA's compiler makes them for the TPU; the real parts here, to 5e-8 of what its bundles give."""
        turned = np.roll(X, 1, axis=1), np.roll(W, 1, axis=1)
        product = lambda a, b, c, d: jnp.real(lax.complex(a, b) @ lax.complex(c, d))  # noqa: E731
        sums = (X + turned[0]).astype(np.float32), (W + turned[1]).astype(np.float32)
        expected = rounded_product(sums[0], W) - rounded_product(turned[0], sums[1])
        self.expect(product, expected, X, turned[0], W, turned[1])

    def test_in_a_convolution(self):
        images = RANDOM.normal(size=(2, 6, 6, 8)).astype(np.float32)
        kernel = RANDOM.normal(size=(1, 1, 8, 16)).astype(np.float32)
        product = rounded_product(images.reshape(-1, 8), kernel[0, 0]).reshape(2, 6, 6, 16)
        convolve = lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))  # noqa: E731
        self.expect(convolve, product, images, kernel)

    def test_in_loops_branches_and_calls(self):
        twice = rounded_product(rounded_product(X, W), W)
        once = rounded_product(X, W)

        @jax.custom_jvp
        def with_rule(x, w):
            return x @ w

        with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), tangents[0]))
        forms = {
            "scan": (lambda x, w: lax.scan(lambda c, _: (c @ w, None), x, None, length=2)[0], twice),
            "while": (lambda x, w: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] @ w), (0, x))[1], twice),
            "cond": (lambda x, w: lax.cond(x[0, 0] < 1e9, lambda x: x @ w, lambda x: x, x), once),
            "checkpoint": (lambda x, w: jax.checkpoint(lambda x: x @ w)(x), once),
            "custom_jvp": (with_rule, once),
            "jit": (lambda x, w: jax.jit(lambda x: x @ w)(x), once),
            "vmap": (lambda x, w: jax.vmap(lambda row: row @ w)(x), once),
        }
        for name, (function, expected) in forms.items():
            with self.subTest(name):
                self.expect(function, expected, X, W)

    def test_in_a_gradient(self):
        self.expect(lambda x, w: jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), rounded_product(X.T, 2 * rounded_product(X, W)), X, W)

    def test_in_parts_at_higher_precision(self):
        exact = X.astype(np.float64) @ W.astype(np.float64)
        _, high, _, _ = references(lambda x, w: lax.dot(x, w, precision="high"), X, W)
        _, highest, _, _ = references(lambda x, w: lax.dot(x, w, precision="highest"), X, W)
        _, preset, _, _ = references(lambda x, w: lax.dot(x, w, precision=lax.DotAlgorithmPreset.BF16_BF16_F32_X3), X, W)
        self.assertLess(distance(highest[0], exact), 1e-6)
        self.assertLess(distance(high[0], exact), 1e-4)
        self.assertGreater(distance(high[0], exact), 2e-6)
        np.testing.assert_array_equal(high[0], preset[0])


@unittest.skipUnless(HAS_JAX, "needs jax")
class ProductsAreNotRounded(unittest.TestCase):
    def expect_fp32(self, function, *arguments):
        outputs, rounded, _, notes = references(function, *arguments)
        np.testing.assert_array_equal(np.asarray(outputs[0]), np.asarray(rounded[0]))
        return notes

    def test_where_they_run_on_the_vector_unit(self):
        forms = {
            "one row": (lambda x, w: x[:1] @ w),
            "one column": (lambda x, w: x @ w[:, :1]),
            "nothing to contract": (lambda x, w: x[:, :1] @ w[:1]),
            "a row for each batch": (lambda x, w: jnp.einsum("bi,bi->b", x, x)),
        }
        for name, function in forms.items():
            with self.subTest(name):
                self.assertEqual(self.expect_fp32(function, X, W)["fp32_on_the_vector_unit"], 1)

    def test_where_a_convolution_is_depthwise(self):
        images = RANDOM.normal(size=(2, 6, 6, 8)).astype(np.float32)
        kernel = RANDOM.normal(size=(3, 3, 1, 8)).astype(np.float32)

        def convolve(a, b):
            return lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8)

        self.expect_fp32(convolve, images, kernel)
        notes = self.expect_fp32(lambda a, b: jax.grad(lambda b: jnp.sum(convolve(a, b) ** 2))(b), images, kernel)
        self.assertEqual(notes["fp32_on_the_vector_unit"], 2)

    SCHEDULED = """
%fused_computation (param_0: bf16[2,6,6,8], param_1.1: f32[3,3,1,8]) -> f32[2,6,6,8] {
  %param_0 = bf16[2,6,6,8]{0,3,2,1:T(4,128)(2,1)} parameter(0)
  %fusion.2 = bf16[2,6,6,8]{0,3,2,1:T(4,128)(2,1)} fusion(%param_0), kind=kLoop, calls=%bitcast_fusion
  %param_1.1 = f32[3,3,1,8]{3,1,2,0:T(4,128)} parameter(1)
  %fusion.1 = bf16[3,3,1,8]{3,2,1,0:T(4,128)(2,1)} fusion(%param_1.1), kind=kLoop, calls=%fused_computation.1
  ROOT %conv = f32[2,6,6,8]{0,3,2,1:T(4,128)} convolution(%fusion.2, %fusion.1), window={size=3x3 pad=1_1x1_1}, feature_group_count=8
}
"""

    def test_of_a_depthwise_convolution_what_the_kernel_itself_makes(self):
        images = RANDOM.normal(size=(2, 6, 6, 8)).astype(np.float32)
        kernel = RANDOM.normal(size=(3, 3, 1, 8)).astype(np.float32)

        def convolve(a, b):
            return lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=8)

        operands = depthwise_operands(self.SCHEDULED)
        self.assertEqual(operands, {((2, 6, 6, 8), (3, 3, 1, 8), (2, 6, 6, 8), 8, 1): (True, False)})
        module = jax.jit(convolve).lower(images, kernel).compiler_ir("stablehlo")
        values = reference_values(module, [images, kernel], depthwise=operands)
        self.assertLess(distance(values.rounded[0], convolve(bf16(images).astype(np.float32), kernel)), 1e-6)
        self.assertGreater(distance(values.rounded[0], values.exact[0]), 5e-4)

    def test_where_they_are_whole_numbers(self):
        whole = RANDOM.integers(9, size=(16, 16)).astype(np.int32)
        self.assertEqual(self.expect_fp32(lambda a: a @ a, whole)["rounded_to_bf16"], 0)

    def test_what_is_left_alone_is_named(self):
        notes = references(lambda w: jnp.linalg.qr(w)[1], W)[3]
        self.assertTrue(any("geqrf" in name for name in notes["not_rounded"]), notes)


@unittest.skipUnless(HAS_JAX, "needs jax")
class Sensitivity(unittest.TestCase):
    def test_what_remains_of_cancelled_sums_is_noise_and_says_so(self):
        calm, noise = references(lambda x: (jnp.sum(x * x), jnp.sum(x * x) - jnp.sum((x * 1.0000001) ** 2)), X)[2]
        self.assertLess(calm, 1e-5)
        self.assertGreater(noise, 1e-2)

    def test_bf16_arithmetic_may_stay_in_fp32_and_counts(self):
        narrow = X.astype(ml_dtypes.bfloat16)
        sensitivity = references(lambda x: jnp.sum(jnp.where(x > -jnp.inf, x * x * x + x, 0), axis=1).astype(jnp.float32), narrow)[2]
        self.assertGreater(sensitivity[0], 1e-4)


if __name__ == "__main__":
    unittest.main()
