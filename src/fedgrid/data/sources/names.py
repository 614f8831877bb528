"""Class names of the data sets that have many, in the order of their labels."""


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


CIFAR100 = _split(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm
    """
)
"CIFAR-100's fine labels."

CUB200 = _split(
    """
    Black_footed_Albatross Laysan_Albatross Sooty_Albatross Groove_billed_Ani Crested_Auklet Least_Auklet
    Parakeet_Auklet Rhinoceros_Auklet Brewer_Blackbird Red_winged_Blackbird Rusty_Blackbird Yellow_headed_Blackbird
    Bobolink Indigo_Bunting Lazuli_Bunting Painted_Bunting Cardinal Spotted_Catbird Gray_Catbird Yellow_breasted_Chat
    Eastern_Towhee Chuck_will_Widow Brandt_Cormorant Red_faced_Cormorant Pelagic_Cormorant Bronzed_Cowbird
    Shiny_Cowbird Brown_Creeper American_Crow Fish_Crow Black_billed_Cuckoo Mangrove_Cuckoo Yellow_billed_Cuckoo
    Gray_crowned_Rosy_Finch Purple_Finch Northern_Flicker Acadian_Flycatcher Great_Crested_Flycatcher Least_Flycatcher
    Olive_sided_Flycatcher Scissor_tailed_Flycatcher Vermilion_Flycatcher Yellow_bellied_Flycatcher Frigatebird
    Northern_Fulmar Gadwall American_Goldfinch European_Goldfinch Boat_tailed_Grackle Eared_Grebe Horned_Grebe
    Pied_billed_Grebe Western_Grebe Blue_Grosbeak Evening_Grosbeak Pine_Grosbeak Rose_breasted_Grosbeak
    Pigeon_Guillemot California_Gull Glaucous_winged_Gull Heermann_Gull Herring_Gull Ivory_Gull Ring_billed_Gull
    Slaty_backed_Gull Western_Gull Anna_Hummingbird Ruby_throated_Hummingbird Rufous_Hummingbird Green_Violetear
    Long_tailed_Jaeger Pomarine_Jaeger Blue_Jay Florida_Jay Green_Jay Dark_eyed_Junco Tropical_Kingbird Gray_Kingbird
    Belted_Kingfisher Green_Kingfisher Pied_Kingfisher Ringed_Kingfisher White_breasted_Kingfisher Red_legged_Kittiwake
    Horned_Lark Pacific_Loon Mallard Western_Meadowlark Hooded_Merganser Red_breasted_Merganser Mockingbird Nighthawk
    Clark_Nutcracker White_breasted_Nuthatch Baltimore_Oriole Hooded_Oriole Orchard_Oriole Scott_Oriole Ovenbird
    Brown_Pelican White_Pelican Western_Wood_Pewee Sayornis American_Pipit Whip_poor_Will Horned_Puffin Common_Raven
    White_necked_Raven American_Redstart Geococcyx Loggerhead_Shrike Great_Grey_Shrike Baird_Sparrow
    Black_throated_Sparrow Brewer_Sparrow Chipping_Sparrow Clay_colored_Sparrow House_Sparrow Field_Sparrow Fox_Sparrow
    Grasshopper_Sparrow Harris_Sparrow Henslow_Sparrow Le_Conte_Sparrow Lincoln_Sparrow Nelson_Sharp_tailed_Sparrow
    Savannah_Sparrow Seaside_Sparrow Song_Sparrow Tree_Sparrow Vesper_Sparrow White_crowned_Sparrow
    White_throated_Sparrow Cape_Glossy_Starling Bank_Swallow Barn_Swallow Cliff_Swallow Tree_Swallow Scarlet_Tanager
    Summer_Tanager Artic_Tern Black_Tern Caspian_Tern Common_Tern Elegant_Tern Forsters_Tern Least_Tern
    Green_tailed_Towhee Brown_Thrasher Sage_Thrasher Black_capped_Vireo Blue_headed_Vireo Philadelphia_Vireo
    Red_eyed_Vireo Warbling_Vireo White_eyed_Vireo Yellow_throated_Vireo Bay_breasted_Warbler Black_and_white_Warbler
    Black_throated_Blue_Warbler Blue_winged_Warbler Canada_Warbler Cape_May_Warbler Cerulean_Warbler
    Chestnut_sided_Warbler Golden_winged_Warbler Hooded_Warbler Kentucky_Warbler Magnolia_Warbler Mourning_Warbler
    Myrtle_Warbler Nashville_Warbler Orange_crowned_Warbler Palm_Warbler Pine_Warbler Prairie_Warbler
    Prothonotary_Warbler Swainson_Warbler Tennessee_Warbler Wilson_Warbler Worm_eating_Warbler Yellow_Warbler
    Northern_Waterthrush Louisiana_Waterthrush Bohemian_Waxwing Cedar_Waxwing American_Three_toed_Woodpecker
    Pileated_Woodpecker Red_bellied_Woodpecker Red_cockaded_Woodpecker Red_headed_Woodpecker Downy_Woodpecker
    Bewick_Wren Cactus_Wren Carolina_Wren House_Wren Marsh_Wren Rock_Wren Winter_Wren Common_Yellowthroat
    """
)
"The species of CUB-200-2011, spelt as there."

DOMAINNET = _split(
    """
    aircraft_carrier airplane alarm_clock ambulance angel animal_migration ant anvil apple arm asparagus axe backpack
    banana bandage barn baseball baseball_bat basket basketball bat bathtub beach bear beard bed bee belt bench bicycle
    binoculars bird birthday_cake blackberry blueberry book boomerang bottlecap bowtie bracelet brain bread bridge
    broccoli broom bucket bulldozer bus bush butterfly cactus cake calculator calendar camel camera camouflage campfire
    candle cannon canoe car carrot castle cat ceiling_fan cello cell_phone chair chandelier church circle clarinet
    clock cloud coffee_cup compass computer cookie cooler couch cow crab crayon crocodile crown cruise_ship cup diamond
    dishwasher diving_board dog dolphin donut door dragon dresser drill drums duck dumbbell ear elbow elephant envelope
    eraser eye eyeglasses face fan feather fence finger fire_hydrant fireplace firetruck fish flamingo flashlight
    flip_flops floor_lamp flower flying_saucer foot fork frog frying_pan garden garden_hose giraffe goatee golf_club
    grapes grass guitar hamburger hammer hand harp hat headphones hedgehog helicopter helmet hexagon hockey_puck
    hockey_stick horse hospital hot_air_balloon hot_dog hot_tub hourglass house house_plant hurricane ice_cream jacket
    jail kangaroo key keyboard knee knife ladder lantern laptop leaf leg light_bulb lighter lighthouse lightning line
    lion lipstick lobster lollipop mailbox map marker matches megaphone mermaid microphone microwave monkey moon
    mosquito motorbike mountain mouse moustache mouth mug mushroom nail necklace nose ocean octagon octopus onion oven
    owl paintbrush paint_can palm_tree panda pants paper_clip parachute parrot passport peanut pear peas pencil penguin
    piano pickup_truck picture_frame pig pillow pineapple pizza pliers police_car pond pool popsicle postcard potato
    power_outlet purse rabbit raccoon radio rain rainbow rake remote_control rhinoceros rifle river roller_coaster
    rollerskates sailboat sandwich saw saxophone school_bus scissors scorpion screwdriver sea_turtle see_saw shark
    sheep shoe shorts shovel sink skateboard skull skyscraper sleeping_bag smiley_face snail snake snorkel snowflake
    snowman soccer_ball sock speedboat spider spoon spreadsheet square squiggle squirrel stairs star steak stereo
    stethoscope stitches stop_sign stove strawberry streetlight string_bean submarine suitcase sun swan sweater
    swing_set sword syringe table teapot teddy-bear telephone television tennis_racquet tent The_Eiffel_Tower
    The_Great_Wall_of_China The_Mona_Lisa tiger toaster toe toilet tooth toothbrush toothpaste tornado tractor
    traffic_light train tree triangle trombone truck trumpet t-shirt umbrella underwear van vase violin washing_machine
    watermelon waterslide whale wheel windmill wine_bottle wine_glass wristwatch yoga zebra zigzag
    """
)
"DomainNet's classes, as the folders of its archives are called."
