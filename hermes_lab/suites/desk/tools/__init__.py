"""The desk's tools: small functions on the shop's database, a module a topic; `toolbox` lists them all."""
