"`model.generate(ids, custom_generate=FOLDER, trust_remote_code=True, assistant_model=draft)`"
