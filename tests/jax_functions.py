"""The functions of jax.numpy, jax.nn, jax.lax, jax.scipy, jax.random, optax and flax by name, for tests/jax_differential.py: each
called once as their users do, and, where it has floats in and out, its gradient."""
import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
import ml_dtypes
import numpy as np
import optax
from jax_programs import Program, weighted_sum
from jax import lax, random

# What the calls below name, in the order of their arguments.
SHAPES = {
    "x": (6, 20), "y": (6, 20), "p": (6, 20), "u": (6, 20), "v": (20,), "w": (20,), "m": (8, 8), "n": (8, 8), "s": (8, 8),
    "a": (3, 4, 5), "c": (4, 8, 8), "image": (2, 12, 10, 4), "kernel": (3, 3, 4, 5), "i": (6, 20), "j": (20,), "b": (6, 20),
    "d": (6, 20), "h": (6, 20), "key": (2,),
}

NUMPY = """
abs(x) acos(u) arccosh(p+1) add(x,y) angle(x) arcsin(u) arcsinh(x) arctan(x) arctan2(x,p) arctanh(u*0.9) cbrt(p) ceil(x) clip(x,-1,1)
copysign(x,y) cos(x) cosh(x) deg2rad(x) degrees(x) divide(x,p) divmod(x,p) exp(x) exp2(x) expm1(x) fabs(x) float_power(p,2.5)
floor(x) floor_divide(x,p) fmax(x,y) fmin(x,y) fmod(x,p) frexp(p) heaviside(x,0.5) hypot(x,y) i0(x) isclose(x,y) isfinite(x) isinf(x)
isnan(x) ldexp(x,i) log(p) log10(p) log1p(p) log2(p) logaddexp(x,y) logaddexp2(x,y) logical_and(b,d) logical_not(b) logical_or(b,d)
logical_xor(b,d) maximum(x,y) minimum(x,y) mod(x,p) modf(x) multiply(x,y) nan_to_num(x) negative(x) nextafter(x,y) positive(x) power(p,x)
rad2deg(x) radians(x) real(x) reciprocal(p) remainder(x,p) rint(x) round(x,1) sign(x) signbit(x) sin(x) sinc(x) sinh(x) spacing(x) sqrt(p)
square(x) subtract(x,y) tan(u) tanh(x) true_divide(x,p) trunc(x) unwrap(x*3) cross(x[:,:3],y[:,:3]) equal(i,h) greater(x,y) less_equal(x,y) not_equal(i,h)
bitwise_and(i,h) bitwise_count(i) bitwise_not(i) bitwise_or(i,h) bitwise_xor(i,h) left_shift(i,h%5) right_shift(i,h%5) gcd(i,h) lcm(i,h)
invert(i) bitwise_left_shift(i,2) bitwise_invert(i) sign(i) abs(i-5) mod(i,h+1) floor_divide(i,h+1) power(i%5,3) clip(i,2,5)
all(b,0) any(b,1) amax(x,0) amin(x,1) argmax(x,1) argmin(x,0) average(x,1,v) count_nonzero(b,1) cumprod(u,1) cumsum(x,0) cumulative_sum(x,axis=1)
cumulative_prod(u,axis=0) diff(x) diff(x,n=2,axis=0) ediff1d(v) gradient(v) max(x) mean(x,0) median(x,1) min(x) nanargmax(x,0) nancumsum(x,1) nanmax(x,0)
nanmean(x,1) nanmedian(x,0) nanmin(x,1) nanprod(u,1) nanstd(x,0) nansum(x) nanvar(x,1) nanpercentile(x,30,1) percentile(x,jnp.array([10.,50.]),axis=1) prod(u,0) ptp(x,1) quantile(x,0.3,axis=0) std(x,0)
sum(x) sum(i,0) trace(m) trapezoid(x) var(x,1) cov(x) corrcoef(x) correlate(v,w[:5]) convolve(v,w[:7],mode='same') histogram(v,bins=5,range=(-2.,2.))
bincount(j,length=12) digitize(v,jnp.array([-1.,0.,1.])) interp(v,jnp.arange(-3.,4.),jnp.arange(7.)**2) searchsorted(jnp.sort(w),v) argsort(x,1) sort(x,0)
lexsort((j,v)) partition(x,5,axis=1) argpartition(v,4) sort_complex(v+0j).real unique(j,size=8) unique_counts(j,size=10) isin(i,j) intersect1d(j,j[::2],size=5) setdiff1d(j,j[:4],size=6) union1d(j,j+3,size=12)
append(x,y,axis=0) apply_along_axis(jnp.sum,1,x) array_split(x,3,axis=0) atleast_3d(x) block([[x,y],[y,x]]) broadcast_to(v,(3,20)) column_stack([v,w])
concatenate([x,y],1) delete(x,3,axis=1) diag(v) diag(m) diagflat(v) diagonal(m,1) dsplit(a[:,:,:4],2) dstack([x,y]) expand_dims(x,1) flip(x,1) fliplr(x) flipud(x)
hsplit(x,4) hstack([x,y]) insert(x,2,1.5,axis=1) kron(m[:3,:2],n[:2,:3]) meshgrid(v,w) moveaxis(a,0,2) pad(x,((1,2),(3,0))) pad(x,2,mode='edge') pad(x,3,mode='reflect') pad(x,2,mode='wrap') pad(x,2,mode='symmetric') pad(x,2,mode='mean') pad(x,2,mode='linear_ramp') permute_dims(a,(2,0,1)) polyadd(v,w)
ravel(x) repeat(x,3,axis=0) repeat(v,jnp.arange(20)%3,total_repeat_length=19) reshape(x,(4,30)) resize(x,(5,7)) roll(x,3,1) roll(x,(1,-2),(0,1)) rollaxis(a,2) rot90(m) split(x,[5,9],axis=1) squeeze(x[None])
stack([x,y],1) swapaxes(a,0,2) take(x,j,axis=1) take_along_axis(x,i,1) tile(x,(2,2)) transpose(a) tri(5,7) tril(m) triu(m,1) vander(v[:6],4) vsplit(x,3) vstack([x,y])
where(b,x,y) select([x>1,x>0],[x,y],0.) piecewise(x,[x<0,x>=0],[lambda t:-t,lambda t:t*2]) choose(i%2,[x,y],mode='clip') compress(jnp.arange(20)%2==0,x,axis=1,size=10) extract(b,x,size=50) nonzero(b,size=60) argwhere(b,size=60) flatnonzero(b,size=60)
place(x,b,v,inplace=False) put(x,j,v,inplace=False) put_along_axis(x,i%20,2.0,1,inplace=False) fill_diagonal(m,3.,inplace=False) indices((3,4)) ix_(j,j[:3]) arange(3,40,4) linspace(v,w,5) logspace(0.,2.,7) geomspace(1.,100.,5) eye(5,7,1) full((3,4),v[0]) zeros((3,)) ones_like(x) diag_indices(4) tril_indices(4) unravel_index(j,(4,5)) ravel_multi_index((j%4,j%5),(4,5),mode='clip')
dot(m,n) einsum('ij,kj->ik',x,y) einsum('bij,bjk->ikb',c,c) inner(x,y) matmul(m,n) matvec(m,v[:8]) vecdot(x,y) vecmat(v[:8],m) outer(v,w) tensordot(a,a,[[1,2],[1,2]]) vdot(v,w) polyval(v[:4],w) polyfit(v,w,2) polymul(v,w) polyder(v) polyint(v) roots(jnp.array([1.,-3.,2.]),strip_zeros=False).real
packbits(b) unpackbits(i.astype(jnp.uint8)) array_equal(x,y) allclose(x,y) iscomplex(x) isreal(x) conj(x) imag(x) astype(x,jnp.int32) astype(i,jnp.float32) astype(x,jnp.bfloat16) float16(x) int8(i) uint32(i) array_repr
linalg.cholesky(s) linalg.cond(s) linalg.cross(x[:,:3],y[:,:3]) linalg.det(m) linalg.diagonal(m) linalg.eigh(s)[0] linalg.eigvalsh(s) linalg.inv(s) linalg.lstsq(s,v[:8])[0] linalg.matmul(m,n) linalg.matrix_norm(m) linalg.matrix_power(m/4,3) linalg.matrix_rank(s) linalg.matrix_transpose(m) linalg.multi_dot([m,n,m]) linalg.norm(x,axis=1) linalg.norm(m,'nuc') linalg.norm(x,jnp.inf,0) linalg.outer(v,w) linalg.pinv(s) linalg.qr(m)[1] linalg.slogdet(s) linalg.solve(s,v[:8]) linalg.svdvals(m) linalg.svd(m)[1] linalg.tensordot(m,n) linalg.trace(m) linalg.vecdot(x,y) linalg.vector_norm(x,axis=0) linalg.eig(m)
fft.fft(x).real fft.ifft(x).imag fft.fft2(x).real fft.rfft(x).imag fft.irfft(jnp.fft.rfft(v)) fft.rfft2(x).real fft.fftshift(x) fft.fftfreq(8) fft.fftn(a).imag fft.hfft(v) fft.ihfft(v).real
"""

NN = """
celu(x) elu(x) gelu(x) gelu(x,approximate=False) glu(x) hard_sigmoid(x) hard_silu(x) hard_swish(x) hard_tanh(x) identity(x) leaky_relu(x) log_sigmoid(x)
log_softmax(x) logmeanexp(x,1) logsumexp(x,0) mish(x) one_hot(j,12) relu(x) relu6(x*4) selu(x) sigmoid(x) silu(x) soft_sign(x) softmax(x,0) softplus(x) sparse_plus(x) sparse_sigmoid(x)
squareplus(x) standardize(x) swish(x) tanh(x) dot_product_attention(c[None],c[None],c[None]) dot_product_attention(c[None],c[None],c[None],is_causal=True) initializers.orthogonal()(random.wrap_key_data(key),(8,8))
"""

LAX = """
abs(x) acos(u) add(x,y) approx_max_k(x,3) approx_min_k(x,3) argmax(x,1,jnp.int32) associative_scan(lax.add,x,axis=1) associative_scan(lax.mul,u) atan2(x,p) batch_matmul(c,c) bessel_i0e(x) bessel_i1e(x) betainc(p,p+1,(u+1)/2) bitcast_convert_type(x,jnp.int32) cbrt(p)
clamp(-1.,x,1.) clz(i) collapse(a,1) complex(x,y).real concatenate([x,y],0) cond(v[0]>0,jnp.sin,jnp.cos,x) conv(image.transpose(0,3,1,2),kernel.transpose(3,2,0,1),(1,1),'SAME') conv_general_dilated(image,kernel,(2,1),((1,0),(0,2)),dimension_numbers=('NHWC','HWIO','NHWC')) conv_transpose(image,kernel,(2,2),'SAME') conv_general_dilated_patches(image.transpose(0,3,1,2),(2,2),(2,1),'VALID') conv_general_dilated_local(image.transpose(0,3,1,2),jnp.ones((5,16,11,9)),(1,1),'VALID',(2,2))
cummax(x,1) cummin(x,0) cumlogsumexp(x,1) cumprod(u,0) cumsum(x,1,reverse=True) digamma(p) dot_general(c,c,(((2,),(1,)),((0,),(0,)))) dynamic_index_in_dim(x,j[0],1) dynamic_slice(x,(1,j[0]),(3,7)) dynamic_update_slice(x,y[:2,:3],(j[0],4)) dynamic_update_index_in_dim(x,v[:6],j[0],1) erf(x) erfc(x) erf_inv(u*0.9) exp2(x) expm1(x) fori_loop(0,5,lambda k,t:t*0.9+k,x) full_like(x,2.) gather(x,j[:,None],lax.GatherDimensionNumbers((0,),(1,),(1,)),(6,1))
igamma(p,p+1) igammac(p,p+1) index_in_dim(x,3,1) integer_pow(x,3) is_finite(x) lgamma(p) log1p(p) logistic(x) map(jnp.sum,x) max(x,y) nextafter(x,y) pad(x,0.,((1,2,1),(-1,3,0))) polygamma(jnp.float32(1),p) population_count(i) pow(p,2) random_gamma_grad(p,p) reduce(x,0.,lax.add,(0,)) reduce(x,-jnp.inf,lax.max,(1,)) reduce_precision(x,5,6) reduce_window(x,0.,lax.add,(2,3),(1,2),'SAME') reduce_window(x,-jnp.inf,lax.max,(3,3),(2,2),'VALID') rem(x,p) reshape(x,(120,)) rev(x,(0,1)) round(x) rsqrt(p)
scan(lambda t,r:(t*0.5+r,t.sum()),v,x) scatter_add(v,j[:5,None],w[:5],lax.ScatterDimensionNumbers((),(0,),(0,))) select(b,x,y) select_n(i%3,x,y,p) shift_left(i,h%4) shift_right_arithmetic(i,h%4) shift_right_logical(i,h%4) sign(x) slice(x,(1,2),(5,19),(2,3)) sort((v,w),num_keys=1) sort_key_val(v,w) square(x) switch(j[0]%3,[jnp.sin,jnp.cos,jnp.tan],u) top_k(x,4) transpose(a,(1,2,0)) while_loop(lambda t:jnp.sum(t)<50,lambda t:t*1.5+0.1,jnp.abs(v)) zeta(p+2,p)
linalg.cholesky(s) linalg.eigh(s)[1] linalg.householder_product(m,v[:8]) linalg.lu(m)[0] linalg.qr(m)[1] linalg.svd(m)[1] linalg.triangular_solve(jnp.tril(s),m,left_side=True,lower=True) linalg.tridiagonal_solve(v,p[0]+4,w,x.T) linalg.schur(m)[0] linalg.tridiagonal(s)[1] linalg.hessenberg(m)[0] fft(x+0j,lax.FftType.FFT,(20,)).real
stop_gradient(x) optimization_barrier(x) platform_dependent(x,default=jnp.sin) ragged_dot(x,jnp.ones((2,20,5)),jnp.array([2,4])) ragged_dot_general(x,y,jnp.array([2,4]),lax.RaggedDotDimensionNumbers((([0],[0]),([],[])),[0],[])) broadcast_in_dim(v,(3,20),(1,)) iota(jnp.int32,9) bitwise_and(i,h) mulhi(i,h) tan(u) sqrt(p) ne(x,y) split(x,(5,15),1)
"""

# By other types than f32 and s32.
TYPES = """
jnp.pad(i.astype(jnp.int8),((1,2),(0,3)),constant_values=5) jnp.pad(b,2,constant_values=True) jnp.pad(x.astype(jnp.float16),1) lax.pad(x,v[0],((1,2,1),(-1,3,0))) jnp.sum(i.astype(jnp.uint8)*30,1,dtype=jnp.uint8) jnp.prod(i.astype(jnp.int16)+1,0,dtype=jnp.int16) jnp.cumsum(i.astype(jnp.uint16)*7000,1,dtype=jnp.uint16)
jnp.sort(i.astype(jnp.int8)-4,0) lax.top_k(x.astype(jnp.float16),4) jnp.argmax(i.astype(jnp.uint8),1) i.astype(jnp.int8).at[:,j].set(i[:,:20].astype(jnp.int8)) x.astype(jnp.float16).at[j%6].add(x[0].astype(jnp.float16)) x.at[j%6,j].apply(jnp.sin) (x+1j*y).at[j%6,j].multiply(2-1j).real
lax.dot(i.astype(jnp.int8),h.T.astype(jnp.int8),preferred_element_type=jnp.int32) lax.dot(x.astype(jnp.float8_e4m3fn),y.T.astype(jnp.float8_e5m2),preferred_element_type=jnp.float32) lax.conv_general_dilated((image*9).astype(jnp.int8),(kernel*9).astype(jnp.int8),(1,1),'SAME',dimension_numbers=('NHWC','HWIO','NHWC'),preferred_element_type=jnp.int32)
lax.reduce_window(i.astype(jnp.int16),np.int16(0),lax.add,(2,3),(1,2),'SAME') lax.rem(i.astype(jnp.uint8),h.astype(jnp.uint8)+1) lax.mulhi(i.astype(jnp.uint16)*7000,h.astype(jnp.uint16)*6000) lax.bitcast_convert_type(x.astype(jnp.bfloat16),jnp.uint8) jnp.prod(x[:,:5]+1j*y[:,:5],1).imag jnp.cumprod(x[:,:5]+1j*y[:,:5],1).real
"""

SCIPY = """
special.bernoulli(5) special.beta(p,p+1) special.betainc(p,p+1,(u+1)/2) special.betaln(p,p+1) special.digamma(p) special.entr(p) special.erf(x) special.erfc(x) special.erfinv(u*0.9) special.exp1(p) special.expi(p) special.expit(x) special.expn(2,p) special.factorial(i%6) special.fresnel(x) special.gamma(p) special.gammainc(p,p) special.gammaincc(p,p) special.gammaln(p) special.gammasgn(x) special.hyp1f1(p,p+1,u) special.i0(x) special.i0e(x) special.i1(x) special.i1e(x) special.kl_div(p,p+1) special.log_ndtr(x) special.log_softmax(x) special.logit((u+1)/2*0.9+0.05) special.logsumexp(x) special.multigammaln(p+3,2) special.ndtr(x) special.ndtri((u+1)/2*0.9+0.05) special.poch(p,2.) special.polygamma(1,p) special.rel_entr(p,p+1) special.softmax(x) special.spence(p) special.xlog1py(x,p) special.xlogy(x,p) special.zeta(p+2,1.) special.sph_harm_y(jnp.array([1]),jnp.array([2]),u[0],u[1],n_max=2).real
linalg.cho_solve((jnp.linalg.cholesky(s),True),v[:8]) linalg.block_diag(m,n) linalg.cholesky(s) linalg.det(m) linalg.eigh(s)[0] linalg.eigh_tridiagonal(v[:8],w[:7],eigvals_only=True) linalg.expm(m/4) linalg.expm_frechet(m/4,n/4) linalg.funm(m,jnp.exp,disp=False)[0].real linalg.hilbert(5) linalg.inv(s) linalg.lu(m)[1] linalg.lu_solve(jsp.linalg.lu_factor(s),v[:8]) linalg.pascal(5) linalg.polar(m)[1] linalg.qr(m)[1] linalg.solve(s,v[:8],assume_a='pos') linalg.solve_triangular(jnp.tril(s),v[:8],lower=True) linalg.solve_sylvester(s,s,m) linalg.sqrtm(s).real linalg.svd(m)[1] linalg.toeplitz(v) linalg.schur(m)[0] linalg.rsf2csf(m,n)[0].real
signal.convolve(v,w[:5]) signal.convolve2d(m,n[:3,:3],mode='same') signal.correlate(v,w[:5]) signal.csd(v,w,nperseg=8)[1].real signal.detrend(v) signal.fftconvolve(v,w[:6]) signal.istft(jsp.signal.stft(v,nperseg=8)[2],nperseg=8)[1] signal.stft(v,nperseg=8)[2].real signal.welch(v,nperseg=8)[1]
stats.norm.logpdf(x) stats.norm.cdf(x) stats.norm.ppf((u+1)/2*0.9+0.05) stats.beta.logpdf((u+1)/2*0.9+0.05,p,p+1) stats.gamma.logpdf(p,p+1) stats.t.logpdf(x,p+1) stats.cauchy.cdf(x) stats.chi2.logpdf(p,p+1) stats.dirichlet.logpdf(jax.nn.softmax(v[:5]),p[0,:5]) stats.expon.logpdf(p) stats.laplace.cdf(x) stats.logistic.sf(x) stats.multivariate_normal.logpdf(v[:8],w[:8],s) stats.pareto.logpdf(p+2,p+1) stats.uniform.pdf(u) stats.bernoulli.logpmf(i%2,(u+1)/2*0.9+0.05) stats.binom.logpmf(i,12,(u+1)/2*0.9+0.05) stats.poisson.logpmf(i,p) stats.poisson.cdf(i,p) stats.nbinom.logpmf(i,5,(u+1)/2*0.9+0.05) stats.geom.logpmf(i+1,(u+1)/2*0.9+0.05) stats.gaussian_kde(v)(w) stats.gennorm.cdf(x,p+1) stats.truncnorm.logpdf(u*0.5,-1.,1.) stats.vonmises.logpdf(x,p) stats.wrapcauchy.logpdf(p,0.3) stats.mode(j,keepdims=True)[0] stats.rankdata(v) stats.sem(x) stats.gumbel_r.logpdf(x) stats.betabinom.logpmf(i,12,p,p)
ndimage.map_coordinates(m,[v+3,w+3],order=1) interpolate.RegularGridInterpolator((jnp.arange(8.),jnp.arange(8.)),m)(jnp.stack([v,w],1)+3) optimize.minimize(lambda t:jnp.sum((t-v[:3])**2),w[:3],method='BFGS').x fft.dct(x,norm='ortho') fft.idct(x) fft.dctn(x) integrate.trapezoid(x) spatial.transform.Rotation.from_quat(v[:4]).as_matrix() cluster.vq.vq(x.T,y.T[:4])[0] sparse.linalg.cg(lambda t:s@t,v[:8],maxiter=8)[0] sparse.linalg.gmres(lambda t:s@t,v[:8],maxiter=3)[0] sparse.linalg.bicgstab(lambda t:s@t,v[:8],maxiter=6)[0]
"""

RANDOM = """
normal(k,(6,20)) uniform(k,(6,20)) bits(k,(20,)) bernoulli(k,0.3,(6,20)) categorical(k,x) choice(k,20,(5,)) choice(k,v,(5,),replace=False) permutation(k,20) permutation(k,x,axis=1) randint(k,(20,),0,9) truncated_normal(k,-1.,1.,(6,20)) gumbel(k,(6,20)) exponential(k,(20,)) laplace(k,(20,)) cauchy(k,(20,)) logistic(k,(20,)) rademacher(k,(20,)) gamma(k,p) beta(k,p,p) dirichlet(k,p[0]) poisson(k,p) t(k,5.,(20,)) multivariate_normal(k,v[:8],s) orthogonal(k,5) ball(k,3,shape=(5,)) maxwell(k,(20,)) weibull_min(k,1.,2.,(20,)) rayleigh(k,1.,(20,)) geometric(k,0.3,(20,)) binomial(k,12,0.4,(20,)) double_sided_maxwell(k,0.,1.,(20,)) generalized_normal(k,1.5,(20,)) lognormal(k,shape=(20,)) loggamma(k,p) pareto(k,2.,(20,)) triangular(k,0.,0.5,1.,(20,)) wald(k,1.,(20,)) f(k,5.,7.,(20,)) chisquare(k,4.,shape=(20,)) multinomial(k,20.,jax.nn.softmax(v)) key_data(random.fold_in(k,7)) key_data(random.split(k,5))
"""

OPTAX = """
losses.cosine_distance(x,y) losses.cosine_similarity(x,y) losses.ctc_loss(c,jnp.zeros((4,8)),jnp.ones((4,3),jnp.int32),jnp.zeros((4,3))) losses.hinge_loss(x,jnp.sign(y)) losses.huber_loss(x,y) losses.kl_divergence(jax.nn.log_softmax(x),jax.nn.softmax(y)) losses.l2_loss(x,y) losses.log_cosh(x,y) losses.ntxent(x,j[:6]%3) losses.poly_loss_cross_entropy(x,jax.nn.softmax(y)) losses.ranking_softmax_loss(x,p) losses.safe_softmax_cross_entropy(x,jax.nn.softmax(y)) losses.sigmoid_binary_cross_entropy(x,b*1.) losses.sigmoid_focal_loss(x,b*1.) losses.smooth_labels(jax.nn.one_hot(j,9),0.1) losses.softmax_cross_entropy(x,jax.nn.softmax(y)) losses.softmax_cross_entropy_with_integer_labels(x,j[:6]) losses.sparsemax_loss(x,b*1) losses.squared_error(x,y) losses.triplet_margin_loss(x,y,p) losses.multiclass_hinge_loss(x,j[:6]) losses.perceptron_loss(x,jnp.sign(y)) losses.convex_kl_divergence(jax.nn.log_softmax(x),jax.nn.softmax(y)) losses.dice_loss(image,jnp.abs(image)) losses.generalized_kl_divergence(jax.nn.log_softmax(x),jax.nn.softmax(y)) global_norm([x,y]) projections.projection_simplex(v) projections.projection_l1_ball(v,1.) tree.norm([x,y])
"""

# Optimisers and layers take more than a call: STEPS of one each.
OPTIMISERS = """
adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb lars lion nadam nadamw noisy_sgd novograd optimistic_gradient_descent radam rmsprop rprop sgd sign_sgd sm3 yogi contrib.muon contrib.prodigy contrib.dadapt_adamw contrib.mechanize contrib.momo contrib.schedule_free_adamw lbfgs polyak_sgd
"""

LAYERS = """
nn.Dense(7)(x) nn.DenseGeneral((3,5))(x) nn.Einsum((20,7),'bi,io->bo')(x) nn.Conv(5,(3,3))(image) nn.Conv(5,(3,3),(2,2),feature_group_count=1)(image) nn.Conv(8,(3,3),feature_group_count=4)(image) nn.Conv(5,(3,3),padding='CIRCULAR')(image) nn.Conv(5,(3,),padding='CAUSAL')(c) nn.ConvTranspose(5,(3,3),(2,2))(image) nn.ConvLocal(5,(3,3))(image) nn.LayerNorm()(x) nn.RMSNorm()(x) nn.GroupNorm(2)(image) nn.InstanceNorm()(image) nn.BatchNorm(use_running_average=True)(image) nn.WeightNorm(nn.Dense(7))(x) nn.SpectralNorm(nn.Dense(7))(x,update_stats=False) nn.PReLU()(x) nn.MultiHeadDotProductAttention(2)(c) nn.Embed(12,6)(j) nn.RNN(nn.LSTMCell(6))(c) nn.RNN(nn.GRUCell(6))(c) nn.RNN(nn.SimpleCell(6))(c) nn.RNN(nn.MGUCell(6))(c) nn.RNN(nn.ConvLSTMCell(3,(3,3)))(jnp.stack([image]*3,1)) nn.Bidirectional(nn.RNN(nn.GRUCell(4)),nn.RNN(nn.GRUCell(4)))(c) nn.max_pool(image,(2,2),(2,2)) nn.max_pool(image,(3,3),(2,2),'SAME') nn.avg_pool(image,(3,3),(1,1),'SAME')
"""


def calls_of(text):
    """Words at brackets' level 0."""
    words, depth, word = [], 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter.isspace() and depth == 0:
            words += [word] if word else []
            word = ""
        else:
            word += letter
    return words


CALLS = [("jnp." if "(" in w else "") + w for w in calls_of(NUMPY) if "(" in w]
CALLS += ["jax.nn." + w for w in calls_of(NN)]
CALLS += ["lax." + w for w in calls_of(LAX)]
CALLS += ["jsp." + w for w in calls_of(SCIPY)]
CALLS += calls_of(TYPES)
CALLS += ["random." + re.sub(r"\bk\b", "random.wrap_key_data(key)", w) for w in calls_of(RANDOM)]
CALLS += ["optax." + w for w in calls_of(OPTAX)]
FUNCTIONS = CALLS + ["optimiser " + w for w in OPTIMISERS.split()] + ["layer " + w for w in calls_of(LAYERS)]


class FunctionProgram(Program):
    """Call number seed // 2; its gradient for odd seeds."""

    for_tpu = True

    def __init__(self, seed):
        self.name = FUNCTIONS[seed // 2 % len(FUNCTIONS)]
        self.has_gradient = seed % 2 == 1
        self.random = np.random.default_rng(7)
        self.form = "plain"
        kind, _, rest = self.name.partition(" ")
        self.kind, self.call = (kind, rest) if kind in ("optimiser", "layer") else ("call", self.name)
        self.names = [n for n in SHAPES if re.search(rf"(?<![\w.']){n}(?![\w'=(])", self.call)]
        if self.kind == "optimiser":
            self.names = ["x", "m", "y", "n"]
        self.arguments = [self.value(n) for n in self.names]
        if self.kind == "layer" and "." in self.call and not re.search(r"_pool", self.call):
            self.take_weights()

    def value(self, name):
        shape = SHAPES[name]
        if name == "key":
            return np.array([3, 5], np.uint32)
        if name in "ijh":
            return self.random.integers(0, 10 if name == "h" else 9 if name == "i" else 6, shape).astype(np.int32)
        if name in "bd":
            return self.random.random(shape) < 0.5
        value = self.random.normal(size=shape)
        if name == "p":
            value = np.abs(value) + 0.3
        if name == "u":
            value = np.clip(value / 3, -0.9, 0.9)
        if name == "s":
            value = value @ value.T + 8 * np.eye(8)
        return np.float32(np.round(value * 64) / 64)

    def take_weights(self):
        """Of a Flax layer: arguments of their own."""
        layer, inputs = self.split_call()
        given = [eval(i, globals(), dict(zip(self.names, self.arguments))) for i in inputs[0]]
        weights = layer.init(random.key(0), *given, **inputs[1])
        self.tree = jax.tree.structure(weights)
        self.weights = [np.asarray(w) for w in jax.tree.leaves(weights)]
        self.arguments += self.weights

    def split_call(self):
        depth, at = 0, len(self.call)
        while True:
            at -= 1
            depth += (self.call[at] == ")") - (self.call[at] == "(")
            if depth == 0:
                break
        inputs = [w for w in self.call[at + 1:-1].split(",update")]
        named = {"update_stats": False} if len(inputs) > 1 else {}
        return eval(self.call[:at]), ([inputs[0]], named)

    def apply(self, *arguments):
        values = dict(zip(self.names, arguments))
        if self.kind == "optimiser":
            return self.optimised(**values)
        if self.kind == "layer" and hasattr(self, "tree"):
            layer, inputs = self.split_call()
            weights = jax.tree.unflatten(self.tree, arguments[len(self.names):])
            return layer.apply(weights, *[eval(i, {**globals(), **values}) for i in inputs[0]], **inputs[1])
        return eval(self.call, {**globals(), **values})

    def optimised(self, x, m, y, n):
        module = optax
        for part in self.call.split("."):
            module = getattr(module, part)
        more = {"noisy_sgd": {"key": 3}, "contrib.mechanize": {}, "lbfgs": {"linesearch": None}, "polyak_sgd": {}}.get(self.call, {})
        rate = {"contrib.mechanize": (optax.sgd(0.1),), "polyak_sgd": (), "contrib.momo": (0.1,)}.get(self.call, (0.1,))
        optimiser = module(*rate, **more)
        weights = {"x": x, "m": m}
        state = optimiser.init(weights)
        given = {"value": jnp.sum(x), "grad": {"x": y, "m": n}, "value_fn": lambda w: jnp.sum(w["x"])}
        for _ in range(2):
            updates, state = optax.with_extra_args_support(optimiser).update({"x": y, "m": n}, state, weights, **given)
            weights = optax.apply_updates(weights, updates)
        return weights

    def __call__(self, *arguments):
        if not self.has_gradient:
            return self.apply(*arguments)
        floats = [k for k, a in enumerate(arguments) if jnp.issubdtype(jnp.result_type(a), jnp.floating)]
        if not floats:
            raise ValueError("no floats")

        def total(*some):
            given = list(arguments)
            for k, value in zip(floats, some):
                given[k] = value
            results = [r for r in jax.tree.leaves(self.apply(*given)) if jnp.issubdtype(r.dtype, jnp.floating)]
            if not results:
                raise ValueError("no result in floats")
            return sum(weighted_sum(r) for r in results)

        return jax.grad(total, tuple(range(len(floats))))(*(arguments[k] for k in floats))
