assert open("/tmp/site/index.html").read() == "<h1>final</h1>\n"
assert open("/tmp/site/style.css").read() == "h1 { color: black }\n"
