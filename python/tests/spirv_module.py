"""The prebuilt module of docs/custom_kernels.md.

Made from the GLSL on that page:
  glslangValidator --target-env vulkan1.2 -S comp triple.comp -o a.spv
  spirv-opt --strip-debug -O a.spv -o triple.spv
and packed with zlib and base 85.
"""

import base64
import zlib

PACKED = """
c-n1KOHKko6l`V?K|}<GkAeb@ipB&*{u&LeaKX+Kn7DDF8@+<}@lNU){3IsUdtIGO2$S^mysCQNp7y<P)vUx!+9b
_|u}{u;CdU0eFyInu&*r!D_VdeqyVpMx-G=ea2YBJK24S$ru^#Upo`g?hZDDP~Kd$kt)~y-PG<7ws8$`&nhLF3%V
#Jc_=PTxs50>}@OMC+QNZu0m1nU)jc_D`A%Mty6@eJ+ZLLVc3JN-D)e*viAO~mx6DMBOp8;n_oonlSC;&HRan1Wx
@P7^z!|2q9epCKoB3sGd=pJ;j)T%Pk!kt;;FKx?$C1g^-scJN)&T198)QDQFVU#9JH1+**7m1pf0&LYL$x0%EBB6
gLw_}8eFUII+49?^x7p7*KC(QdJh0`*1R<(W)`?~oV#oHKN1>+Ioz?asCfOLC3rGbA^_|KssrGCaR;AaWn3cxUvk
*t3)Kx?<cc@hPmD&fCtYx}e)7_l8(?&Miy)3)%LV_ZRwx{%1xpsiDalWKIW+A2PPg?2x!<WOhfys;Wuo9FK{6yh~
2orZ$XdPl<ba?`>}#ou%bM)-L*@&eU>ley@lvc#r4Sjl}4)78m0h+CH_;{|8^LciI1NawDvNNm?~H
"""


def triple():
    """y[i] = 3 * x[i] over floats, as bytes of SPIR-V; the workgroup size is left to the caller."""
    return zlib.decompress(base64.b85decode("".join(PACKED.split())))
