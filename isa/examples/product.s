// y = x w on one MXU: the weights are pushed in eight rows at a time, then x is multiplied by them.

parameter 0 x f32[8,128]{1,0:T(8,128)} at 0
parameter 1 w f32[128,128]{1,0:T(8,128)} at 4
output 0 y f32[8,128]{1,0:T(8,128)} at 68

kernel product
  { dma.hbm_to_vmem 0, 4, 0, 1 }
  { dma.hbm_to_vmem 4, 64, 8, 1 }
  { dma.done.wait 1, 68 }
  { vsyncadd 1, -68 ;; %s1 = smov 135 }    // row 127 of w, below x
push:
  { %v1 = vld [vmem:%s1 ss:$-1] }          // eight rows upwards: the last one that is pushed is row 0
  { vmatpush.msra.mxu0 %v1 ;; %s1 = ssub.s32 %s1, 8 }
  { %p1 = scmp.gt.s32.totalorder %s1, 8 }
  { sbr.rel (%p1) target = push }
  { vdelay 3 }                             // the delay slot; the array takes a push every eight cycles
  { vdwg.mxu0 }                            // what was pushed becomes the weights of the next vmatmul
  { %v2 = vld [vmem:$0x0] }
  { vmatmul.f32.gmra.mxu0 %v2 ;; vdelay 120 }
  { %v3 = vpop.f32.mrf.mxu0 }
  { vst [vmem:$0x90] %v3 }
  { dma.vmem_to_hbm 144, 4, 68, 1 }
  { dma.done.wait 1, 4 }
  { vsyncadd 1, -4 }
