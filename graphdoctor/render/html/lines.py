from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class L:
    number:int; text:str|None; state:str="none"; graphs:tuple=(); node_count:int=0; break_fingerprints:tuple=(); related:tuple=(); guard_count:int=0; guard_us:float|None=None; recompile_fingerprints:tuple=(); frame_state:object=None
@dataclass(frozen=True)
class AnnotatedFile:
    file:str; origin:str; package:str|None; lines:tuple; is_source_missing:bool=False; hidden_line_count:int=0
def shown_path(file, root):
    try: return str(Path(file).relative_to(root))
    except ValueError: return file
def annotate(d,p,root):
    out={}
    for f in d.findings:
        out.setdefault(f.location.file,[]).append(f)
    res=[]
    for file,fs in out.items():
        t=(Path(root)/file).read_text().split("\n")
        br={}
        for f in fs: br.setdefault(f.location.line,[]).append(f.fingerprint)
        g={}
        for gr in d.graphs:
            for n in gr.nodes or ():
                if n.file and shown_path(n.file,root)==file: g.setdefault(n.line,set()).add(gr.index)
        res.append(AnnotatedFile(file,"user",None,tuple(L(i+1,x,"graph" if i+1 in g else "eager" if i+1 in br else "none",tuple(sorted(g.get(i+1,()))),0,tuple(br.get(i+1,()))) for i,x in enumerate(t))))
    return tuple(res)
